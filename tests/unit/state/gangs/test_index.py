"""The index of gangs follows the events of pods and PodGroups."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model.gpu.device import Devices
from scheduler.model.pods.gang import PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold
from scheduler.state.gangs.gang import Gang
from tests.builders import cluster, node, pod
from tests.gangs import COSCHEDULING, member, members


def gang_of(state: Cluster, one: Pod) -> Gang:
    found = state.gangs.of(one)
    assert found is not None
    return found


def see(state: Cluster, *pods: Pod) -> list[ev.Change]:
    return [change for one in pods for change in fold(state, ev.PodUpdated(one))]


@pytest.mark.parametrize(
    ("placed", "waiting", "need", "is_complete"),
    [
        pytest.param(0, 2, 3, False, id="a member is missing"),
        pytest.param(0, 3, 3, True, id="complete"),
        pytest.param(0, 5, 3, True, id="more than the minimum"),
        pytest.param(1, 2, 2, True, id="started"),
        pytest.param(1, 1, 1, True, id="started and others are gone"),
        pytest.param(3, 2, 1, True, id="the minimum has nodes"),
        pytest.param(3, 0, 0, False, id="nothing waits"),
    ],
)
def test_the_need_counts_members_with_a_node(
    placed: int, waiting: int, need: int, is_complete: bool
) -> None:
    state = cluster(node(gpus=8))
    every = members(placed + waiting, 3, gpus=1)
    see(state, *every)
    for one in every[:placed]:
        state.assume(one, Assumption("n1", Devices()))

    gang = gang_of(state, every[0])

    assert (gang.need, gang.is_complete) == (need, is_complete)


def test_a_failed_binding_makes_the_member_wait_again() -> None:
    state = cluster(node(gpus=8))
    every = members(3, 3, gpus=1)
    see(state, *every)
    for one in every:
        state.assume(one, Assumption("n1", Devices()))
    state.forget(every[1].uid)

    gang = gang_of(state, every[0])

    assert (len(gang.placed), gang.waiting, gang.need) == (2, {every[1].uid}, 1)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"gates": ("kueue.x-k8s.io/admission",)}, id="gated"),
        pytest.param({"is_deleting": True}, id="being deleted"),
        pytest.param({"scheduler_name": "other"}, id="of another scheduler"),
    ],
)
def test_a_member_that_may_not_be_placed_does_not_wait(changes: dict[str, object]) -> None:
    state = cluster(node(gpus=8))
    every = members(2, 2)
    see(state, every[0], msgspec.structs.replace(every[1], **changes))

    assert gang_of(state, every[0]).waiting == {every[0].uid}


def test_ended_members_leave_and_the_last_one_ends_the_gang() -> None:
    state = cluster()
    every = members(2, 2)
    see(state, *every)
    fold(state, ev.PodDeleted(every[0].uid))
    assert set(gang_of(state, every[1]).members) == {every[1].uid}

    see(state, msgspec.structs.replace(every[1], phase="Succeeded"))

    assert list(state.gangs) == []


def test_the_largest_minimum_of_the_living_members_counts() -> None:
    state = cluster()
    see(state, member("a", 2), member("b", 4))
    assert gang_of(state, member("a", 2)).minimum == 4

    fold(state, ev.PodDeleted("team-b"))

    assert gang_of(state, member("a", 2)).minimum == 2


def test_a_relabelled_member_changes_its_gang() -> None:
    state = cluster()
    see(state, member("a", 1), member("b", 1), member("a", 1, group="other"))

    assert set(gang_of(state, member("b", 1)).members) == {"team-b"}
    assert set(gang_of(state, member("a", 1, group="other")).members) == {"team-a"}


def test_equal_names_of_two_namespaces_are_two_gangs() -> None:
    state = cluster()
    see(state, member("a", 2, namespace="x"), member("b", 2, namespace="y"))

    assert [len(gang.members) for gang in state.gangs] == [1, 1]


def test_a_pod_group_defines_the_minimum() -> None:
    state = cluster()
    one = pod("a", labels={COSCHEDULING: "train"})
    see(state, one)
    assert state.gangs.of(one) is None, "the kind is not installed"

    served = fold(state, ev.PodGroupsReplaced(()))
    assert gang_of(state, one).minimum is None, "the group is not found"
    defined = fold(state, ev.PodGroupUpdated(PodGroup("team", "train", 2)))
    assert gang_of(state, one).minimum == 2
    deleted = fold(state, ev.PodGroupDeleted("team", "train"))
    assert gang_of(state, one).minimum is None

    key = gang_of(state, one).key
    assert [served, defined, deleted] == [[ev.GangChanged(key)]] * 3


def test_a_bound_member_starts_those_that_waited_before() -> None:
    state = cluster(node(gpus=8))
    every = members(2, 3, gpus=1)
    see(state, every[0])

    changes = see(state, msgspec.structs.replace(every[1], node_name="n1"))

    assert ev.GangChanged(gang_of(state, every[0]).key) in changes


def test_a_replaced_pod_of_a_job_waits_for_no_finished_member() -> None:
    """The others have succeeded; of a new Job all members have to exist again."""
    state = cluster(node(gpus=8))
    every = members(3, 3, gpus=1, owner="Job/train")
    see(state, *(msgspec.structs.replace(one, node_name="n1") for one in every))
    for one in every:
        fold(state, ev.PodDeleted(one.uid))
    assert list(state.gangs) == []

    again = member("train-again", 3, gpus=1, owner="Job/train")
    other = member("train-other", 3, gpus=1, owner="Job/other")
    see(state, again)
    assert (gang_of(state, again).need, gang_of(state, again).is_complete) == (1, True)
    fold(state, ev.PodDeleted(again.uid))
    see(state, other)
    assert (gang_of(state, other).need, gang_of(state, other).is_complete) == (3, False)


def test_members_that_end_do_not_start_their_successors() -> None:
    """The same objects were deleted and created again."""
    state = cluster(node(gpus=8))
    before = members(2, 2, gpus=1)
    see(state, *(msgspec.structs.replace(one, node_name="n1") for one in before))
    see(
        state,
        *(msgspec.structs.replace(one, node_name="n1", is_deleting=True) for one in before),
    )

    new = member("new", 2, gpus=1)
    see(state, new)

    assert (gang_of(state, new).need, gang_of(state, new).is_complete) == (2, False)
