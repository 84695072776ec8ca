"""The plan of a gang: all members that it needs, or none and the reasons."""

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


def test_members_that_do_not_count_are_told_apart() -> None:
    state = cluster(node(gpus=8))
    pods = [
        member("a", 5),
        member("b", 5, gates=("x",)),
        member("c", 5, scheduler="other"),
        member("d", 5, deleting=True),
    ]

    assert message(plan(state, pods)).endswith(
        "waiting for members 1/5 of group train; 1 with scheduling gates; 1 being deleted;"
        " 1 of another scheduler."
    )


def test_a_missing_pod_group_is_named() -> None:
    state = cluster(node(gpus=8))
    fold(state, ev.PodGroupsReplaced(()))

    found = plan(state, [pod("a", labels={COSCHEDULING: "train"})])

    assert message(found).endswith(
        "group not found: PodGroup.scheduling.x-k8s.io team/train does not exist."
    )


def test_a_pod_group_decides_the_minimum() -> None:
    state = cluster(node(gpus=2))
    fold(state, ev.PodGroupUpdated(PodGroup("team", "train", 2)))
    pods = [pod(name, gpus=1, labels={COSCHEDULING: "train"}) for name in "abc"]

    found = plan(state, pods)

    assert sorted(nodes_of(found)) == ["a", "b"]
    assert isinstance(found, GangPlan)
    assert [one.pod.name for one in found.left] == ["c"]


def test_a_member_whose_binding_failed_is_planned_alone() -> None:
    state = cluster(node("n1", gpus=2), node("n2", gpus=1))
    every = members(3, 3, gpus=1)
    for one in plan_of(state, every).placements:
        state.assume(one.pod, Assumption(one.node_name, one.devices))
    state.forget(every[1].uid)
    gang = state.gangs.of(every[0])
    assert gang is not None

    again = plan_gang(state, gang, [every[1]], ALLOW_ALL_MAPS)

    assert list(nodes_of(again)) == ["train-1"]


def plan_of(state: Cluster, pods: list[Pod]) -> GangPlan:
    found = plan(state, pods)
    assert isinstance(found, GangPlan)
    return found


def test_the_largest_member_is_placed_first() -> None:
    """One by one by age the small members would take the room of the large one."""
    state = cluster(node("n1", gpus=4), node("n2", gpus=2))
    pods = [
        member("small-a", 3, gpus=1),
        member("small-b", 3, gpus=1),
        member("large", 3, gpus=4, created=9),
    ]

    assert nodes_of(plan(state, pods)) == {"large": "n1", "small-a": "n2", "small-b": "n2"}


def test_equal_members_get_neighbouring_nodes_by_rank() -> None:
    """By best fit the smallest node comes first, and would get the first rank."""
    state = cluster(node("n1", gpus=3), node("n2", gpus=2), node("n3", gpus=1))
    pods = members(6, 6, gpus=1, owner="StatefulSet/train")

    found = nodes_of(plan(state, list(reversed(pods))))

    assert [found[f"train-{rank}"] for rank in range(6)] == ["n1", "n1", "n1", "n2", "n2", "n3"]


def test_a_member_follows_the_one_that_it_has_to_be_near() -> None:
    """The larger one comes first, and fits only after the head has a place."""
    state = cluster(
        node("n1", gpus=2, labels={"zone": "a"}), node("n2", gpus=4, labels={"zone": "b"})
    )
    pods = [
        member("worker", 2, gpus=2, spec=NEAR),
        member("head", 2, gpus=1, labels={"role": "head"}, selector={"zone": "b"}),
    ]

    assert nodes_of(plan(state, pods)) == {"worker": "n2", "head": "n2"}


def test_interchangeable_members_get_different_lines_of_a_map() -> None:
    state = cluster(node("n1", gpus=2, with_gpu_indexes=True))
    pods = [
        member(f"w-{name}", 2, map="0=n1:0\n1=n1:1", owner="Deployment/w") for name in ("a", "b")
    ]

    found = plan_of(state, pods)

    assert sorted(str(one.devices.numbers) for one in found.placements) == ["(0,)", "(1,)"]
    assert sorted(one.index for one in found.placements if one.index is not None) == [0, 1]


def test_members_get_different_instances_of_a_dynamic_gpu() -> None:
    state = cluster(dynamic())

    found = plan_of(state, members(3, 3, mig={"2g.20gb": 1}))

    given = [each for one in found.placements for each in one.devices.mig_placements]
    assert sorted(each.start for each in given) == [0, 2, 4]


def test_a_nominated_pod_of_equal_priority_keeps_its_room() -> None:
    state = cluster(node("n1", gpus=2))
    fold(state, ev.PodUpdated(pod("first", gpus=1, nominated="n1")))

    assert "1 of the 2 members" in message(plan(state, members(2, 2, gpus=1)))


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_a_plan_beyond_its_budget_places_no_member(limit: int) -> None:
    state = cluster(*(node(f"n{number}", gpus=1) for number in range(20)))
    every = members(20, 20, gpus=1)
    for one in every:
        fold(state, ev.PodUpdated(one))
    gang = state.gangs.of(every[0])
    assert gang is not None
    work = budget_of(every, ALLOW_ALL_MAPS)
    work.limit = limit

    found = plan_gang(state, gang, every, ALLOW_ALL_MAPS, work)

    assert isinstance(found, Rejection)


def test_a_gang_with_too_few_places_is_refused_by_totals() -> None:
    """Each node is asked once, however many members there are."""
    state = cluster(*(node(f"n{number}", gpus=4) for number in range(5)))
    every = members(30, 30, gpus=1)
    for one in every:
        fold(state, ev.PodUpdated(one))
    gang = state.gangs.of(every[0])
    assert gang is not None
    work = budget_of(every, ALLOW_ALL_MAPS)

    found = plan_gang(state, gang, every, ALLOW_ALL_MAPS, work)

    assert "20 of the 30 members" in message(found)
    assert work.spent == 5 * (every[0].label_steps + every[0].node_steps)
