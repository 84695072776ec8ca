"""The storage that a pod leaves free: kube-scheduler's score, and what it decides for which pod."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.framework.settings import Settings
from scheduler.plugins.volumes.volume_binding import score_of, scores
from scheduler.state.cache.cluster import Cluster
from tests.builders import cluster, codes, dynamic, node, placed, pod
from tests.storage import (
    HOSTNAME,
    ZONE,
    capacity,
    claim,
    csi_driver,
    storage_class,
    uses,
    volume,
)

GOLDEN: Final = Path(__file__).parents[3] / "golden" / "volumescore.json"
ROWS: Final[list[Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
ZONES: Final = {"n1": "a", "n2": "a", "n3": "b", "n4": "c"}
DRIVER: Final = "fast.example.com"
#: Two volumes and two capacities of different sizes.
LARGE_IN_B: Final = (
    storage_class("fast", provisioner=DRIVER),
    csi_driver(DRIVER, capacity=True),
    capacity("a", zone="a", free="10Gi"),
    capacity("b", zone="b", free="100Gi"),
    claim(class_name="fast", storage="9Gi"),
)


def host(name: str, zone: str, **more: Any) -> Any:
    return node(name, labels={HOSTNAME: name, ZONE: zone}, **more)


def golden_cluster(row: Any) -> Cluster:
    """What ``tools/golden/fiterror/volumescore`` made of the row."""
    provisioners = {name: f"{name}.example.com" for name in ("fast", "slow", "plain")}
    return cluster(
        *(host(name, zone) for name, zone in ZONES.items()),
        storage_class("local"),
        *(storage_class(name, provisioner=one) for name, one in provisioners.items()),
        *(csi_driver(provisioners[name], capacity=True) for name in ("fast", "slow")),
        *(
            claim(one["name"], class_name=one["class"], storage=one["storage"])
            for one in row["claims"]
        ),
        *(
            volume(
                one["name"],
                class_name=one["class"],
                storage=one["storage"],
                host=one["value"] if one.get("key") == HOSTNAME else "",
                zone=one["value"] if one.get("key") == ZONE else "",
            )
            for one in row.get("volumes", ())
        ),
        *(
            capacity(
                f"{one['class']}-{one['zone']}",
                class_name=one["class"],
                zone=one["zone"],
                free=one["free"],
                largest=one.get("largest"),
            )
            for one in row.get("capacities", ())
        ),
    )


def test_golden_cases_have_scores_of_every_kind() -> None:
    expected = [score for row in ROWS for score in row["expected"].values()]

    assert len(ROWS) == 300
    assert {0, 100} < set(expected)
    assert len(set(expected)) > 40
    assert any(len(set(row["expected"].values())) > 2 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_nodes_score_as_by_the_real_plugin(row: Any) -> None:
    """A node without a score is one on which the claims cannot be bound."""
    state = golden_cluster(row)
    user = pod("p", spec=uses(*(one["name"] for one in row["claims"])))
    expected: dict[str, int] = row["expected"]
    feasible = [info for info in state.candidates() if info.node and info.node.name in expected]

    assert scores(state, user, feasible, Settings()) == [
        expected[name] for name in sorted(expected)
    ]
    if expected:
        assert placed(state, user).node_name in expected
    else:
        assert codes(state, user)


def test_more_free_storage_decides_for_a_pod_without_gpus() -> None:
    state = cluster(host("n1", "a"), host("n2", "b"), *LARGE_IN_B)

    assert placed(state, pod("p", spec=uses("data"))).node_name == "n2"


def test_free_storage_decides_between_equal_nodes_for_a_gpu_pod() -> None:
    state = cluster(host("n1", "a", gpus=2), host("n2", "b", gpus=2), *LARGE_IN_B)

    assert placed(state, pod("p", gpus=1, spec=uses("data"))).node_name == "n2"
    assert placed(state, pod("q", gpus=1)).node_name == "n1"


def test_packing_comes_before_free_storage_for_a_gpu_pod() -> None:
    state = cluster(host("tight", "a", gpus=1), host("wide", "b", gpus=2), *LARGE_IN_B)

    assert placed(state, pod("p", gpus=1, spec=uses("data"))).node_name == "tight"


def test_free_storage_decides_between_listed_nodes_of_a_gpu_pod() -> None:
    """Local volumes name the few nodes, which are scanned."""
    state = cluster(
        host("n1", "a", gpus=2),
        host("n2", "b", gpus=2),
        storage_class(),
        claim(),
        volume("one", host="n1", storage="2Gi"),
        volume("two", host="n2", storage="4Gi"),
    )

    assert placed(state, pod("p", gpus=1, spec=uses("data"))).node_name == "n2"


def test_layout_of_mig_instances_does_not_depend_on_free_storage() -> None:
    state = cluster(dynamic("a", labels={ZONE: "a"}), dynamic("b", labels={ZONE: "b"}), *LARGE_IN_B)
    user = pod("p", mig={"1g.10gb": 1}, spec=uses("data"))

    assert placed(state, user).node_name == "a"


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((claim(volume="pv"), volume()), id="bound"),
        pytest.param(
            (storage_class("fast", provisioner=DRIVER), claim(class_name="fast")),
            id="no-capacity-published",
        ),
        pytest.param((*LARGE_IN_B[:-1], claim(class_name="fast", selected="n1")), id="selected"),
        pytest.param((), id="no-claim"),
    ],
)
def test_nothing_is_compared_where_nodes_cannot_differ(objects: Any) -> None:
    """The search for a pod with GPUs then ends at the first node."""
    state = cluster(host("n1", "a"), host("n2", "b"), *objects)

    assert score_of(state, pod("p", spec=uses("data"))) is None


def test_of_several_capacities_of_a_node_the_largest_counts() -> None:
    """kube-scheduler takes any of them, in no order."""
    more = capacity("c", zone="a", free="900Gi")
    state = cluster(host("n1", "a"), host("n2", "b"), *LARGE_IN_B, more)

    assert placed(state, pod("p", spec=uses("data"))).node_name == "n1"
