"""The container that a pod-level request means: the named one, else the first of the author."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.model import well_known
from scheduler.model.pods.injected_containers import (
    INJECTED,
    IntendedContainer,
    intended_container,
    is_injected,
)

PAGE = Path(__file__).parents[4] / "docs" / "tiers.md"
TRAIN = {well_known.DEFAULT_CONTAINER: "train"}


@pytest.mark.parametrize(
    ("containers", "annotations", "found"),
    [
        pytest.param(["train"], {}, IntendedContainer("train"), id="the-only-one"),
        pytest.param(["fuse", "train"], TRAIN, IntendedContainer("train"), id="named"),
        pytest.param(
            ["istio-proxy", "train"], {}, IntendedContainer("train"), id="behind-an-injected-one"
        ),
        pytest.param(
            ["jfs-mount-0", "jfs-mount-1", "train"], {}, IntendedContainer("train"), id="numbered"
        ),
        pytest.param(
            ["train", "log"], {}, IntendedContainer("train", ("train", "log")), id="a-guess"
        ),
        pytest.param(
            ["daprd", "train", "log"],
            {},
            IntendedContainer("train", ("train", "log")),
            id="a-guess-behind",
        ),
        pytest.param(
            ["istio-proxy"], {}, IntendedContainer("istio-proxy"), id="a-gateway-is-its-authors-own"
        ),
        pytest.param(
            ["a", "b"],
            {well_known.DEFAULT_CONTAINER: "c"},
            IntendedContainer("a", ("a", "b")),
            id="named-and-absent",
        ),
        pytest.param(
            ["a"],
            {well_known.DEFAULT_CONTAINER: "prep"},
            IntendedContainer("prep"),
            id="named-init",
        ),
    ],
)
def test_target_container(
    containers: list[str], annotations: dict[str, str], found: IntendedContainer
) -> None:
    assert intended_container(containers, annotations, ["prep"]) == found


def test_container_name_with_an_injected_prefix_belongs_to_the_author() -> None:
    assert not is_injected("istio-proxy-config")
    assert not is_injected("jfs-mounter")
    assert is_injected("consul-dataplane-web")


def test_every_injector_names_its_source_and_is_documented() -> None:
    rows: dict[str, list[str]] = {}
    for name, one in INJECTED.items():
        assert one.source
        rows.setdefault(one.product, []).append(f"`{name}`")
        rows[one.product] += [f"`{name}-*`"] if one.is_prefix else []
    table = [f"| {', '.join(containers)} | {who} |" for who, containers in rows.items()]

    assert "\n".join(table) in PAGE.read_text(encoding="utf-8")
