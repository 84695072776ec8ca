"""Single pods that request a level of the topology are placed near their family."""

from __future__ import annotations

from typing import Unpack

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.state.cache.cluster import Cluster
from tests.builders import PodFields, cluster, node, pod, refused, settle
from tests.topology import BLOCK, LEVELS, RACK, preferred, rack, required


def replicas(count: int, **fields: Unpack[PodFields]) -> list[Pod]:
    """Pods of one owner with one GPU each."""
    fields = {"gpus": 1, "owner": "Job/train", **fields}
    name = fields["owner"].partition("/")[2]
    return [pod(f"{name}-{at}", **fields) for at in range(count)]


def place(state: Cluster, pods: list[Pod]) -> list[str]:
    """The racks that the pods get one after the other, all of them known before."""
    for one in pods:
        state.upsert_pod(one)
    return [rack_of(state, settle(state, one, LEVELS)) for one in pods]


def rack_of(state: Cluster, placement: Placement) -> str:
    found = state.nodes.at(placement.node_name)
    assert found is not None
    assert found.node is not None
    return found.node.labels[RACK]


@pytest.mark.parametrize("near", [required(RACK), preferred(RACK)], ids=["required", "preferred"])
def test_the_first_pod_goes_where_all_of_them_fit(near: dict[str, str]) -> None:
    """VOL#5205: the first pod got no guidance, and the others followed it far away."""
    state = cluster(*rack("r1", 1), *rack("r2", 8), *rack("r3", 4))

    assert place(state, replicas(4, annotations=near)) == ["r3"] * 4


def test_a_full_domain_is_left_for_the_nearest_one() -> None:
    state = cluster(*rack("r1", 2), *rack("r2", 1, block="b2"), *rack("r3", 2))

    found = place(state, replicas(4, annotations=preferred(RACK)))

    assert found == ["r1", "r1", "r3", "r3"]


def test_a_required_domain_that_is_full_is_not_left() -> None:
    state = cluster(*rack("r1", 2), *rack("r2", 1))
    pods = replicas(3, annotations=required(RACK))
    for one in pods:
        state.upsert_pod(one)

    assert [rack_of(state, settle(state, one, LEVELS)) for one in pods[:2]] == ["r1", "r1"]
    assert sentence(refused(state, pods[2], LEVELS).diagnosis) == (
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu (need 1; best node has 0 free), 1"
        " node(s) outside the topology domain of the pod's group."
    )


def test_a_pod_alone_gets_the_tightest_domain() -> None:
    """By best fit alone it would take the fuller node of the larger rack."""
    state = cluster(*rack("r1", 1, 8), *rack("r2", 2))

    assert rack_of(state, settle(state, pod(gpus=1, annotations=preferred(RACK)), LEVELS)) == "r2"


def test_a_pod_alone_needs_a_node_with_the_label() -> None:
    state = cluster(node("bare", gpus=1), *rack("r1", 0))

    rejection = refused(state, pod(gpus=1, annotations=required(RACK)), LEVELS)

    assert "1 node(s) without the label example.com/rack" in sentence(rejection.diagnosis)


def test_pods_without_a_request_are_not_drawn_near() -> None:
    state = cluster(*rack("r1", 4), *rack("r2", 1))
    place(state, replicas(1, annotations=preferred(RACK)))

    assert place(state, replicas(1, owner="Job/other")) == ["r1"]


def test_a_pod_that_is_being_deleted_pins_no_domain() -> None:
    state = cluster(*rack("r1", 1), *rack("r2", 2))
    near = required(RACK)
    state.upsert_pod(
        pod("old", gpus=1, owner="Job/train", node="b1-r1-1", deleting=True, annotations=near)
    )

    assert place(state, replicas(2, annotations=near)) == ["r2", "r2"]


def test_a_group_without_a_minimum_stays_near_too() -> None:
    """Pods of two owners, as the head and the workers of a job."""
    state = cluster(*rack("r1", 1), *rack("r2", 2))
    together = {"gpu-scheduler.io/group": "job"}
    pods = [
        *replicas(1, owner="Job/head", labels=together, annotations=preferred(RACK)),
        *replicas(1, owner="Job/work", labels=together, annotations=preferred(RACK)),
    ]

    assert place(state, pods) == ["r2", "r2"]


def test_a_pod_that_waits_is_tried_when_its_family_moves_on() -> None:
    """Its domain is free of the family again, so any domain may take it."""
    state = cluster(*rack("r1", 1), *rack("r2", 1))
    first, second = replicas(2, annotations=required(RACK))
    settle(state, first, LEVELS)
    state.upsert_pod(second)
    refused(state, second, LEVELS)

    assert state.topology.concerns(second, first)
    state.delete_pod(first.uid)
    assert isinstance(schedule_one(state, second, LEVELS), Placement)


def test_the_required_level_may_be_farther_than_the_preferred_one() -> None:
    state = cluster(*rack("r1", 1), *rack("r2", 1), *rack("r3", 1, block="b2"))
    near = {**required(BLOCK), **preferred(RACK)}
    pods = replicas(3, annotations=near)

    assert place(state, pods[:2]) == ["r1", "r2"]
    state.upsert_pod(pods[2])
    assert "outside the topology domain" in sentence(refused(state, pods[2], LEVELS).diagnosis)
