"""Which container its author meant: the one that is named, else the first of his own."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.model import names
from scheduler.model.injected import INJECTED, Meant, is_injected, meant

PAGE = Path(__file__).parents[3] / "docs" / "tiers.md"
TRAIN = {names.DEFAULT_CONTAINER: "train"}


@pytest.mark.parametrize(
    ("containers", "annotations", "found"),
    [
        pytest.param(["train"], {}, Meant("train"), id="the-only-one"),
        pytest.param(["fuse", "train"], TRAIN, Meant("train"), id="named"),
        pytest.param(["istio-proxy", "train"], {}, Meant("train"), id="behind-an-injected-one"),
        pytest.param(["jfs-mount-0", "jfs-mount-1", "train"], {}, Meant("train"), id="numbered"),
        pytest.param(["train", "log"], {}, Meant("train", ("train", "log")), id="a-guess"),
        pytest.param(
            ["daprd", "train", "log"], {}, Meant("train", ("train", "log")), id="a-guess-behind"
        ),
        pytest.param(["istio-proxy"], {}, Meant("istio-proxy"), id="a-gateway-is-its-authors-own"),
        pytest.param(
            ["a", "b"],
            {names.DEFAULT_CONTAINER: "c"},
            Meant("a", ("a", "b")),
            id="named-and-absent",
        ),
        pytest.param(["a"], {names.DEFAULT_CONTAINER: "prep"}, Meant("prep"), id="named-init"),
    ],
)
def test_the_container_that_is_meant(
    containers: list[str], annotations: dict[str, str], found: Meant
) -> None:
    assert meant(containers, annotations, ["prep"]) == found


def test_a_name_that_only_begins_like_an_injected_one_is_its_authors_own() -> None:
    assert not is_injected("istio-proxy-config")
    assert not is_injected("jfs-mounter")
    assert is_injected("consul-dataplane-web")


def test_every_injector_says_where_its_name_was_read_and_stands_in_the_docs() -> None:
    rows: dict[str, list[str]] = {}
    for name, one in INJECTED.items():
        assert one.source
        rows.setdefault(one.who, []).append(f"`{name}`")
        rows[one.who] += [f"`{name}-*`"] if one.is_prefix else []
    table = [f"| {', '.join(containers)} | {who} |" for who, containers in rows.items()]

    assert "\n".join(table) in PAGE.read_text(encoding="utf-8")
