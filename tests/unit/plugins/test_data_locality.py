"""Nodes with the data of a pod are preferred, after the fit of its GPUs and before its CPU."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.score_breakdown import rank
from scheduler.framework.decision import Placement
from scheduler.framework.settings import Settings
from scheduler.model.limits import DATA_NAMES_MAX
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Cluster
from tests.best_node import best_node
from tests.builders import cluster, dynamic, node, placed, pod
from tests.storage import HOSTNAME, claim, storage_class, uses, volume

DATA = "gpu-scheduler.io/data"
READS = {DATA: "imagenet"}
HOLDS = {DATA: "imagenet"}


def chosen(state: Cluster, newcomer: Any, **settings: Any) -> str:
    """The node that the pod gets."""
    state.track_label_keys(newcomer)
    return placed(state, newcomer, default_pipeline(Settings(**settings))).node_name


GPUS = [
    pytest.param(
        [node("n1", gpus=4), node("n2", gpus=4, labels=HOLDS)], "n2", id="equal-nodes-by-data"
    ),
    pytest.param(
        [node("n1", gpus=4, cpu="8"), node("n2", gpus=4, cpu="64", labels=HOLDS)],
        "n2",
        id="data-before-cpu",
    ),
    pytest.param(
        [node("n1", gpus=2), node("n2", gpus=4, labels=HOLDS)], "n1", id="gpus-before-data"
    ),
    pytest.param(
        [
            node("n1", gpus=4, mig={"1g.10gb": 1}, labels=HOLDS),
            node("n2", gpus=4),
        ],
        "n2",
        id="other-devices-before-data",
    ),
    pytest.param(
        [node("n1", gpus=4), node("n2", gpus=4, labels={DATA: "web"})], "n1", id="other-data"
    ),
    pytest.param([node("n1", gpus=4), node("n2", gpus=0, labels=HOLDS)], "n1", id="no-room"),
    pytest.param(
        [node("n1", gpus=4), node("n2", gpus=4, labels=HOLDS, taints=["slow:PreferNoSchedule"])],
        "n1",
        id="preferences-before-data",
    ),
]


@pytest.mark.contract("S4-22")
@pytest.mark.parametrize(("nodes", "name"), GPUS)
def test_data_counts_after_the_gpus_and_before_cpu(nodes: list[Any], name: str) -> None:
    assert chosen(cluster(*nodes), pod("p", gpus=1, annotations=READS)) == name


def test_data_counts_after_the_layout_cost_of_mig() -> None:
    """Beside another instance on n1 the pod does not break up an empty GPU."""
    used = pod("x", mig={"1g.10gb": 1}, node="n1", devices="1g.10gb@0/5")
    state = cluster(dynamic("n1"), dynamic("n2", labels=HOLDS), used)
    newcomer = pod("p", mig={"1g.10gb": 1}, annotations=READS)

    alone = cluster(dynamic("n1"), dynamic("n2", labels=HOLDS))

    assert (chosen(state, newcomer), chosen(alone, newcomer)) == ("n1", "n2")


def test_data_is_found_among_many_classes() -> None:
    """The index reads one bucket of all classes then, in the order of CPU."""
    nodes = [
        node(f"n{number:02}", gpus=4, cpu=str(number + 1), taints=[f"t{number}=x:NoSchedule"])
        for number in range(20)
    ]
    nodes[13] = node("n13", gpus=4, cpu="14", labels=HOLDS, taints=["t13=x:NoSchedule"])
    state = cluster(*nodes)
    newcomer = pod("p", gpus=1, annotations=READS, tolerations=[{"operator": "Exists"}])
    for _ in range(8):
        state.track_label_keys(newcomer)

    found = best_node(state, newcomer)

    assert state.index.covers(newcomer.label_keys)
    assert found is not None
    assert found.node is not None
    assert found.node.name == "n13"


@pytest.mark.parametrize("placement", ["pack", "spread"])
def test_data_counts_in_both_directions_of_placement(placement: str) -> None:
    state = cluster(node("n1", gpus=4), node("n2", gpus=4, labels=HOLDS), node("n3", gpus=4))

    found = chosen(state, pod("p", gpus=1, annotations=READS), placement=placement)

    assert found == "n2"


@pytest.mark.parametrize("non_gpu", ["balanced", "pack"])
@pytest.mark.parametrize(
    ("nodes", "name"),
    [
        pytest.param([node("n1"), node("n2", labels=HOLDS)], "n2", id="equal-nodes"),
        pytest.param([node("n1", gpus=4, labels=HOLDS), node("n2")], "n2", id="keeps-off-gpus"),
    ],
)
def test_data_counts_for_pods_without_gpus_too(nodes: list[Any], name: str, non_gpu: str) -> None:
    newcomer = pod("p", annotations=READS, requests={"cpu": "1"})

    assert chosen(cluster(*nodes), newcomer, non_gpu=non_gpu) == name


def test_data_comes_before_the_balance_of_cpu() -> None:
    used = pod("x", node="n2", requests={"cpu": "6"})
    state = cluster(node("n1", cpu="8"), node("n2", cpu="8", labels=HOLDS), used)

    assert chosen(state, pod("p", annotations=READS, requests={"cpu": "1"})) == "n2"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("imagenet", ("imagenet",), id="one"),
        pytest.param("web, imagenet,,web", ("imagenet", "web"), id="several"),
        pytest.param(" ", (), id="none"),
        pytest.param(",".join(f"d{n:02}" for n in range(99)), None, id="too-many"),
    ],
)
def test_annotation_is_a_list_of_names(text: str, names: tuple[str, ...] | None) -> None:
    found = pod("p", annotations={DATA: text}).data_names

    assert found == names if names is not None else len(found) == DATA_NAMES_MAX


@pytest.mark.contract("S4-22")
@pytest.mark.parametrize("promised", [False, True])
def test_existing_volume_counts_as_data(*, promised: bool) -> None:
    """On every other node the claim would get a new, empty volume."""
    hosts = [node(f"n{n}", gpus=4, cpu=str(9 - n), labels={HOSTNAME: f"n{n}"}) for n in (1, 2, 3)]
    there = volume("pv", class_name="fast", host="n1", for_claim="team/data" if promised else "")
    made = storage_class("fast", provisioner="disks.example.com")
    state = cluster(*hosts, made, claim(class_name="fast"), there)
    newcomer = pod("p", gpus=1, spec=uses("data"))

    assert chosen(state, newcomer) == "n1"
    assert chosen(cluster(*hosts, made, claim(class_name="fast")), newcomer) == "n3"


def test_both_kinds_of_data_add_up() -> None:
    by_label, both = {DATA: "imagenet", HOSTNAME: "n1"}, {DATA: "imagenet", HOSTNAME: "n2"}
    state = cluster(
        node("n1", gpus=4, labels=by_label),
        node("n2", gpus=4, cpu="64", labels=both),
        storage_class("fast", provisioner="disks.example.com"),
        claim(class_name="fast"),
        volume("pv", class_name="fast", host="n2"),
    )

    assert chosen(state, pod("p", gpus=1, annotations=READS, spec=uses("data"))) == "n2"


def test_journal_names_the_data_as_what_decided() -> None:
    pipeline = default_pipeline()
    state = cluster(node("n1", gpus=4), node("n2", gpus=4, cpu="64", labels=HOLDS))
    newcomer = pod("p", gpus=1, annotations=READS)
    placement = schedule_one(state, newcomer, pipeline)
    assert isinstance(placement, Placement)

    ranking = rank(state, placement, pipeline)

    assert ranking is not None
    assert (ranking.winner.node, ranking.decided_by, ranking.margin) == ("n2", "data", 1)
