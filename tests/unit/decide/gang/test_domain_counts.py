"""How many members a domain holds: what is counted, and what only a plan finds out."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.node import Node
from tests.builders import PodFields, cluster, dynamic, node
from tests.gangs import member, members
from tests.topology import BLOCK, RACK, domains, message, plan, rack, required


def test_the_number_of_pods_of_a_node_counts() -> None:
    """KUE#4270: the limit of pods per node was forgotten."""
    few = [
        node(f"few-{at}", gpus=8, pods=3, labels={BLOCK: "b1", RACK: f"r{at}"}) for at in range(9)
    ]
    state = cluster(*few, *rack("wide", 9))

    found = plan(state, members(4, 4, gpus=1, annotations=required(RACK)))

    assert domains(state, found) == ["wide"]


APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {well_known.GROUP: "train"}},
                    "topologyKey": well_known.HOSTNAME,
                }
            ]
        }
    }
}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"ports": [{"containerPort": 1, "hostPort": 1}]}, id="a port"),
        pytest.param({"spec": APART}, id="anti-affinity"),
    ],
)
def test_pods_that_take_a_node_each_are_counted_so(fields: PodFields) -> None:
    """More tight racks than plans that are tried have room for them by their requests."""
    tight = [one for at in range(9) for one in hosts(rack(f"r{at}", 8))]
    state = cluster(*tight, *hosts(rack("wide", *([4] * 4))))

    fields = {**fields, "gpus": 1, "annotations": required(RACK)}
    found = plan(state, members(4, 4, **fields))

    assert domains(state, found) == ["wide"]


def hosts(nodes: list[Node]) -> list[Node]:
    """The nodes with the label of their name."""
    return [
        msgspec.structs.replace(one, labels={**one.labels, well_known.HOSTNAME: one.name})
        for one in nodes
    ]


def test_members_on_a_node_without_the_label_pin_nothing() -> None:
    state = cluster(node("bare", gpus=1), *rack("r1", 2))
    old = member("old", 2, gpus=1, annotations=required(RACK), node="bare")
    state.upsert_pod(old)

    found = plan(state, [member("new", 2, gpus=1, annotations=required(RACK))])

    assert domains(state, found) == ["r1"]


def test_a_domain_that_holds_each_shape_but_not_all_is_left() -> None:
    """By count r1 takes both shapes; a plan in it fails, and the next domain is tried."""
    state = cluster(*rack("r1", 3, 3), *rack("r2", 4, 3))
    pods = [
        member("a", 3, gpus=4, annotations=required(RACK)),
        member("b", 3, gpus=2, annotations=required(RACK)),
        member("c", 3, gpus=1, annotations=required(RACK)),
    ]

    found = plan(state, pods)

    assert domains(state, found) == ["r2"]


def test_a_plan_that_fails_in_every_domain_says_so() -> None:
    """Each rack has room for both MIG instances by count, one GPU has not."""
    labels = {BLOCK: "b1", RACK: "r1"}
    state = cluster(dynamic("d1", labels=labels), dynamic("d2", labels={BLOCK: "b1", RACK: "r2"}))
    pods = [
        member("a", 2, mig={"4g.40gb": 1}, annotations=required(RACK)),
        member("b", 2, mig={"7g.80gb": 1}, annotations=required(RACK)),
    ]

    found = message(plan(state, pods))

    assert "group train: 1 of the 2 members" in found
    assert "no domain of example.com/rack has room" in found


def test_a_map_decides_within_the_domain() -> None:
    """Members with a map are not counted: the plan finds out."""
    labels = {BLOCK: "b1", RACK: "r2"}
    state = cluster(*rack("r1", 1), node("n1", gpus=2, with_gpu_indexes=True, labels=labels))
    pods = [
        member(
            f"w-{name}", 2, map="0=n1:0\n1=n1:1", owner="Deployment/w", annotations=required(RACK)
        )
        for name in "ab"
    ]

    assert domains(state, plan(state, pods)) == ["r2"]
