"""Image names: one value with the registry, the version as the tag, and a mirror for all charts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.charts.rendering import CHECK, FAKE, SCHEDULER, objects, settings
from tools.release import present

CHARTS = [SCHEDULER, CHECK, FAKE]
DIGEST = "sha256:" + 64 * "0"


def images(chart: Path, *sets: str) -> set[tuple[str, str]]:
    """Image and pull policy of every container that the chart renders."""
    found = objects(chart, *settings(*sets))
    return {(each["image"], each["imagePullPolicy"]) for each in _containers(found)}


def _containers(node: Any) -> Iterator[dict[str, str]]:
    if isinstance(node, dict):
        if isinstance(node.get("image"), str):
            yield node
        for each in node.values():
            yield from _containers(each)
    elif isinstance(node, list):
        for each in node:
            yield from _containers(each)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
@pytest.mark.parametrize(
    ("sets", "image", "policy"),
    [
        pytest.param((), "NAME:VERSION", "IfNotPresent", id="default"),
        pytest.param(
            ("image.repository=r.example:5000/team/x",),
            "r.example:5000/team/x:VERSION",
            "IfNotPresent",
            id="registry-in-the-repository",
        ),
        pytest.param(
            ("global.imageRegistry=mirror.example",),
            "mirror.example/NAME:VERSION",
            "IfNotPresent",
            id="mirror",
        ),
        pytest.param(
            ("global.imageRegistry=mirror.example/all/", "image.repository=r.example/team/x"),
            "mirror.example/all/team/x:VERSION",
            "IfNotPresent",
            id="mirror-replaces-the-registry",
        ),
        pytest.param(
            ("global.imageRegistry=mirror.example", "image.repository=team/x"),
            "mirror.example/team/x:VERSION",
            "IfNotPresent",
            id="mirror-keeps-a-path",
        ),
        pytest.param(("image.tag=latest",), "NAME:latest", "Always", id="latest-is-always-pulled"),
        pytest.param(("image.tag=7",), "NAME:7", "IfNotPresent", id="number"),
        pytest.param(
            (f"image.digest={DIGEST}", "image.tag=latest"),
            f"NAME@{DIGEST}",
            "IfNotPresent",
            id="digest",
        ),
        pytest.param(("image.pullPolicy=Never",), "NAME:VERSION", "Never", id="policy"),
    ],
)
def test_image_name_and_pull_policy_follow_the_values(
    chart: Path, sets: tuple[str, ...], image: str, policy: str
) -> None:
    name = "gpu-scheduler-check" if chart == CHECK else "gpu-scheduler"
    expected = image.replace("NAME", name).replace("VERSION", present())

    assert images(chart, *sets) == {(expected, policy)}
