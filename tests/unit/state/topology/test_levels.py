"""The levels of the topology are detected from the labels of the GPU nodes."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.state.topology.levels import keys_down_to
from tests.builders import cluster, node

ZONE, REGION = well_known.ZONE, well_known.REGION
AWS = well_known.AWS_NETWORK
TIERS = tuple(f"fabric.topograph.run/tier-{tier}" for tier in (10, 1, 0))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({ZONE: "a", REGION: "r"}, (REGION, ZONE), id="region and zone"),
        pytest.param(dict.fromkeys(TIERS, "x"), TIERS, id="tiers by number, 0 is nearest"),
        pytest.param(
            {ZONE: "a", **dict.fromkeys(AWS, "x")}, (ZONE, *AWS), id="zone and one family"
        ),
        pytest.param(
            {AWS[2]: "x", "cloud.provider.com/topology-rack": "y"}, (AWS[2],), id="the first family"
        ),
        pytest.param({"fabric.topograph.run/tier-x": "x"}, (), id="no number"),
    ],
)
def test_levels_are_detected_far_first(labels: dict[str, str], expected: tuple[str, ...]) -> None:
    assert cluster(node(gpus=8, labels=labels)).topology.detected_levels == expected


def test_nine_of_ten_gpu_nodes_make_a_level() -> None:
    """Nodes without GPUs do not count."""
    state = cluster(node("cpu"), *(node(f"n{at}", gpus=1) for at in range(10)))
    found: list[tuple[str, ...]] = []
    for at in range(9):
        state.upsert_node(node(f"n{at}", gpus=1, labels={ZONE: "a"}))
        found.append(state.topology.detected_levels)
    assert found == [()] * 8 + [(ZONE,)]

    state.delete_node("n0")
    assert not state.topology.detected_levels


def test_domains_follow_the_labels_of_nodes() -> None:
    state = cluster(node("n1", labels={ZONE: "a"}), node("n2"))
    paths = state.topology.paths((ZONE, "rack"))

    state.upsert_node(node("n2", labels={ZONE: "a", "rack": ""}))
    state.upsert_node(node("n3", labels={"rack": "1"}))
    state.delete_node("n1")

    assert paths.domains_of == {"n2": (("a",), ("a", "")), "n3": ((None,), (None, "1"))}
    assert paths.nodes_of == {
        ("a",): {"n2"},
        ("a", ""): {"n2"},
        (None,): {"n3"},
        (None, "1"): {"n3"},
    }


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("block", ("block",), id="far"),
        pytest.param("rack", ("block", "rack"), id="near"),
        pytest.param("other", ("other",), id="no level"),
        pytest.param(
            well_known.NVLINK_CLIQUE, ("block", "rack", well_known.NVLINK_CLIQUE), id="clique"
        ),
        pytest.param(well_known.HOSTNAME, ("block", "rack", well_known.HOSTNAME), id="host name"),
    ],
)
def test_a_level_is_below_the_farther_ones(key: str, expected: tuple[str, ...]) -> None:
    assert keys_down_to(key, ("block", "rack")) == expected
