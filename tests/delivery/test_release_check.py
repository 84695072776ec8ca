"""The rehearsal of a release: a real OCI registry gets the charts, and wrong ones are found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.charts.copies import CHARTS, ROOT
from tools.charts.helm import helm
from tools.release import NotReleased, present
from tools.release.artifacts import checked_registry, package, with_registry
from tools.release.check import IMAGES, check, registry

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_rehearsal_publishes_every_chart_and_the_wheel() -> None:
    lines = list(check())

    assert [line.partition(":")[0] for line in lines] == [
        f"chart fake-gpu-operator {present()}",
        f"chart gpu-scheduler {present()}",
        f"chart gpu-scheduler-check {present()}",
        f"wheel gpu_scheduler-{present()}-py3-none-any.whl",
    ]
    assert f"{IMAGES}/gpu-scheduler-check:{present()}" in lines[2]


def test_install_line_of_the_readme_finds_the_published_chart(tmp_path: Path) -> None:
    """Rendered instead of installed; tests/e2e and tests/controlplane install the same chart."""
    (line,) = re.findall(r"^    helm install (.*)$", README, re.MULTILINE)
    with registry(tmp_path) as address:
        for archive in package(tmp_path, IMAGES):
            helm("push", archive, f"oci://{address}/charts", "--plain-http")

        words = line.replace("oci://REGISTRY", f"oci://{address}").split()
        rendered = helm("template", *words, "--plain-http")

    assert f'image: "{IMAGES}/gpu-scheduler:{present()}"' in rendered
    assert "namespace: gpu-scheduler-system" in rendered


@pytest.mark.parametrize("chart", sorted(path.parent.name for path in CHARTS.glob("*/Chart.yaml")))
def test_a_registry_is_written_in_front_of_the_chart_image(chart: str) -> None:
    values = (CHARTS / chart / "values.yaml").read_text(encoding="utf-8")

    changed = with_registry(values, "r.example/team")

    assert changed.count("r.example/team") == 1
    assert changed.replace("r.example/team/", "") == values


@pytest.mark.parametrize(
    ("registry", "is_valid"),
    [
        pytest.param("r.example.com/team/", True, id="slash-at-the-end"),
        pytest.param("localhost:5000", True, id="port"),
        pytest.param("", False, id="empty"),
        pytest.param("team", False, id="no-host"),
        pytest.param("https://r.example.com", False, id="scheme"),
        pytest.param("r.example.com/Team", False, id="upper-case"),
    ],
)
def test_registry_is_a_host_and_a_path(registry: str, is_valid: bool) -> None:
    if is_valid:
        assert checked_registry(registry) == registry.rstrip("/")
    else:
        with pytest.raises(NotReleased, match=r"like registry\.example\.com/team"):
            checked_registry(registry)
