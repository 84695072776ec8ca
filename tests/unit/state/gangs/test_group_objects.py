"""Gangs that objects of the API server define: policy, priority, and what is missing."""

from __future__ import annotations

import pytest

from scheduler.decide.gang.incomplete import why_incomplete
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.gang import GangSource, PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold
from scheduler.state.gangs.gang import Gang
from scheduler.state.snapshot import ClusterSnapshot, restore, take
from tests.builders import cluster, node, pod
from tests.gangs import COSCHEDULING, of_pod_group, pod_group
from tests.scheduler_world import SchedulerWorld

API = GangSource.API.value


def served(*groups: PodGroup) -> Cluster:
    """A cluster whose API server serves PodGroups."""
    state = cluster(node(gpus=8))
    fold(state, ev.PodGroupsReplaced(groups, source=API))
    return state


def see(state: Cluster, *pods: Pod) -> None:
    for one in pods:
        fold(state, ev.PodUpdated(one))


def gang_of(state: Cluster, one: Pod) -> Gang:
    found = state.gangs.of(one)
    assert found is not None
    return found


def test_the_group_in_the_spec_comes_first() -> None:
    one = of_pod_group("a", labels={COSCHEDULING: "other", "gpu-scheduler.io/group": "own"})
    state = served(pod_group(3))
    see(state, one)

    assert gang_of(state, one).key == pod_group(3).key
    assert gang_of(state, one).minimum == 3


def test_a_group_that_is_not_served_is_no_gang() -> None:
    state, one = cluster(), of_pod_group("a")
    see(state, one)

    assert state.gangs.of(one) is None


def test_group_of_volcano_is_a_gang_where_volcano_is_a_source() -> None:
    one = pod("a", annotations={"scheduling.k8s.io/group-name": "train"})
    state = cluster(node(gpus=8))
    see(state, one)
    assert state.gangs.of(one) is None

    group = PodGroup("team", "train", 2, GangSource.VOLCANO.value)
    fold(state, ev.PodGroupsReplaced((group,), source=GangSource.VOLCANO.value))

    assert gang_of(state, one).minimum == 2


def test_a_group_with_the_basic_policy_is_no_gang() -> None:
    state, one = served(pod_group(None)), of_pod_group("a")
    see(state, one)

    assert state.gangs.of(one) is None


def test_a_missing_group_is_named() -> None:
    state, one = served(), of_pod_group("a")
    see(state, one)

    assert why_incomplete(gang_of(state, one)).text == (
        "group not found: PodGroup.scheduling.k8s.io team/train does not exist"
    )


def test_claims_of_a_group_are_no_claims_of_its_pods() -> None:
    state = served(pod_group(None, problem="spec.resourceClaims"))
    one = of_pod_group("a")
    see(state, one)

    assert why_incomplete(gang_of(state, one)).text == (
        "unsupported: spec.resourceClaims of PodGroup.scheduling.k8s.io train"
    )


@pytest.mark.parametrize("is_first", [True, False], ids=["group-first", "pods-first"])
def test_members_have_the_priority_of_their_group(is_first: bool) -> None:
    state, group = served(), pod_group(2, priority=7)
    if is_first:
        fold(state, ev.PodGroupUpdated(group))
    see(state, of_pod_group("a"), of_pod_group("b", priority=3))
    if not is_first:
        fold(state, ev.PodGroupUpdated(group))

    assert {one.priority for one in state.pods.values()} == {7}


def test_one_source_keeps_the_groups_of_the_other() -> None:
    state, one = served(pod_group(2)), of_pod_group("a")
    see(state, one)
    fold(state, ev.PodGroupsReplaced((PodGroup("team", "train", 5),)))

    assert gang_of(state, one).minimum == 2
    assert state.gangs.groups()[API] == (pod_group(2),)


def test_a_group_grows_and_nothing_is_evicted() -> None:
    """RAY#5205, VOL#6010: the newest minimum counts for the next plan."""
    state = served(pod_group(2))
    every = [of_pod_group(name) for name in "ab"]
    see(state, *every)
    for one in every:
        state.assume(one, Assumption("n1", Devices()))

    fold(state, ev.PodGroupUpdated(pod_group(4)))
    see(state, of_pod_group("c"), of_pod_group("d"))

    assert gang_of(state, every[0]).need == 2
    assert set(state.assumed) == {one.uid for one in every}


def test_a_recorded_state_has_both_kinds_of_groups() -> None:
    world = SchedulerWorld()
    fold(world.cluster, ev.PodGroupsReplaced((pod_group(2),), source=API))
    see(world.cluster, of_pod_group("a"))

    again = restore(take(world.cluster, world.queue, world.reservations, 1, 0.0))

    assert again.gangs.groups() == {API: (pod_group(2),)}


def test_a_former_recording_has_the_groups_of_one_source() -> None:
    group = PodGroup("team", "train", 2)
    state = ClusterSnapshot(scheduler_name="s", generation=1, now=0.0, pod_groups=(group,))

    assert restore(state).gangs.groups() == {GangSource.COSCHEDULING.value: (group,)}
