"""The plan of a gang: everybody that it needs, or nobody and the reasons."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.gang.plan import GangPlan, budget_of, plan_gang
from scheduler.framework.decision import Rejection
from scheduler.model.pods.gang import PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold
from tests.builders import ALLOW_ALL_MAPS, cluster, dynamic, node, pod
from tests.gangs import COSCHEDULING, member, members

NEAR: dict[str, Any] = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"role": "head"}}, "topologyKey": "zone"}
            ]
        }
    }
}


def plan(state: Cluster, pods: list[Pod]) -> GangPlan | Rejection:
    for one in pods:
        fold(state, ev.PodUpdated(one))
    gang = state.gangs.of(pods[0])
    assert gang is not None
    waiting = [one for one in pods if one.uid in gang.waiting]
    return plan_gang(state, gang, waiting, ALLOW_ALL_MAPS)


def nodes_of(found: GangPlan | Rejection) -> dict[str, str]:
    assert isinstance(found, GangPlan), found
    return {one.pod.name: one.node_name for one in found.placements}


def message(found: GangPlan | Rejection) -> str:
    assert isinstance(found, Rejection), found
    return sentence(found.diagnosis)


def test_a_gang_that_fits_gets_all_its_nodes() -> None:
    state = cluster(node("n1", gpus=2), node("n2", gpus=2))

    found = nodes_of(plan(state, members(4, 4, gpus=1)))

    assert sorted(found.values()) == ["n1", "n1", "n2", "n2"]


def test_a_gang_with_one_member_too_many_gets_nothing() -> None:
    state = cluster(node("n1", gpus=2), node("n2", gpus=1))

    found = plan(state, members(4, 4, gpus=1))

    assert message(found) == (
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu (need 1; best node has 0 free)."
        " group train: 3 of the 4 members that have to be placed together fit;"
        " train-3 does not."
    )
    assert not state.assumed


def test_a_missing_member_is_named_by_its_index() -> None:
    state = cluster(node(gpus=8))
    every = members(5, 5, owner="StatefulSet/train")

    found = plan(state, [*every[:1], *every[2:4]])

    assert message(found) == (
        "0/1 nodes are available: waiting for members 3/5 of group train; no pod has the index 1 4."
    )
    assert isinstance(found, Rejection)
    assert found.diagnosis.condition_reason(is_mapped=False) == "WaitingForGroup"
