"""One place in the queue for each gang: its leader."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model.gpu.device import Devices
from scheduler.model.pods.gang import GangSource
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold, notify_queue
from scheduler.state.queue.gang_queue import GangQueue
from scheduler.state.queue.requeue_conditions import RequeueCondition
from tests.builders import GPU, cluster, node, pod
from tests.gangs import members, of_pod_group, pod_group

NO_ROOM = RequeueCondition(frozenset((RequeueCause.FREED,)), frozenset((GPU,)), frozenset((GPU,)))
MISSING = RequeueCondition(frozenset((RequeueCause.GROUP,)))


class World:
    """A cluster with its queue."""

    def __init__(self) -> None:
        self.state: Cluster = cluster(node(gpus=8))
        self.queue = GangQueue(self.state.gangs)

    def see(self, *pods: Pod, now: float = 0.0) -> None:
        for one in pods:
            self.tell(fold(self.state, ev.PodUpdated(one)), now)

    def end(self, one: Pod, now: float = 0.0) -> None:
        self.tell(fold(self.state, ev.PodDeleted(one.uid)), now)

    def tell(self, changes: list[ev.Change], now: float) -> None:
        for change in changes:
            notify_queue(self.queue, change, now, self.never_fits, lambda _a, _b: False)

    def never_fits(self, _pod: Pod, _node: str) -> RequeueCondition:
        return NO_ROOM

    def popped(self, now: float = 0.0) -> list[str]:
        """The names that are due, one decision after the other."""
        found = []
        while batch := self.queue.pop_batch(now, 8):
            found.append("+".join(entry.pod.name for entry in batch))
        return found

    def reject(self, condition: RequeueCondition, now: float) -> None:
        [entry] = self.queue.pop_batch(now, 8)
        self.queue.begin_decision(entry)
        self.queue.add_unschedulable(entry, condition, now)


@pytest.fixture
def world() -> World:
    return World()


def test_the_last_member_makes_the_leader_due_at_once(world: World) -> None:
    first, second, third = members(3, 3)
    world.see(first, second)
    assert world.popped() == []

    world.see(third)

    assert world.popped() == ["train-0"]
    key = world.state.gangs.key_of(first)
    assert key is not None
    assert [one.pod.name for one in world.queue.members(key)] == ["train-1", "train-2", "train-0"]


def test_an_incomplete_gang_is_reported_after_a_second(world: World) -> None:
    world.see(*members(2, 3))

    assert (world.popped(0.9), world.popped(3.0)) == ([], ["train-0"])


def test_a_gang_reported_as_incomplete_starts_with_its_last_member(world: World) -> None:
    every = members(3, 3)
    world.see(*every[:2])
    world.reject(MISSING, 3.0)
    assert world.popped(100.0) == []

    world.see(every[2], now=100.0)

    assert world.popped(100.0) == ["train-0"]


def test_another_missing_member_is_reported_again_later(world: World) -> None:
    every = members(3, 4)
    world.see(*every[:2])
    world.reject(MISSING, 3.0)

    world.see(every[2], now=10.0)

    assert (world.popped(10.5), world.popped(13.0)) == ([], ["train-0"])


def test_a_gang_waits_once_for_the_room_that_it_lacks(world: World) -> None:
    world.see(*members(3, 3))
    world.reject(NO_ROOM, 0.0)
    assert world.queue.sizes() == {"active": 0, "backoff": 0, "unschedulable": 3}

    world.tell([ev.ClusterEvent(RequeueCause.FREED, node_name="n1", what=frozenset((GPU,)))], 50.0)

    assert world.popped(50.0) == ["train-0"], "although the leader does not fit on that node"


def test_the_next_member_leads_after_the_leader_left(world: World) -> None:
    first, second, third = members(3, 2)
    world.see(first, second, third)
    world.reject(NO_ROOM, 0.0)

    world.end(first, now=0.5)

    assert world.popped(0.6) == ["train-1"], "an idle queue does not wait for the backoff"


def test_an_ended_member_makes_the_gang_incomplete(world: World) -> None:
    every = members(3, 3)
    world.see(*every)
    world.reject(NO_ROOM, 0.0)
    world.end(every[1], now=20.0)
    world.see(*members(1, 1, group="x"), now=20.0)

    assert world.popped(20.0) == ["x-0"]


def test_a_failed_binding_lets_its_member_lead(world: World) -> None:
    every = members(3, 3)
    world.see(*every)
    [entry] = world.queue.pop_batch(0.0, 8)
    for one in every:
        world.queue.delete(one.uid, 0.0)
        world.state.assume(one, Assumption("n1", Devices()))
    assert len(world.queue) == 0

    world.tell(world.state.forget(every[1].uid), 1.0)
    world.queue.requeue_failed_bind(every[1], entry, 1.0)
    world.tell(world.state.forget(every[2].uid), 1.0)
    world.queue.requeue_failed_bind(every[2], entry, 1.0)

    assert (world.popped(1.5), world.popped(4.0)) == ([], ["train-1"])


def test_a_leader_is_decided_alone(world: World) -> None:
    world.see(pod("a"), *members(2, 2, created=1), pod("b", created=2), pod("c", created=3))

    assert sorted(world.popped()) == ["a", "b+c", "train-0"]


def test_a_pod_that_leaves_its_group_is_decided_alone(world: World) -> None:
    every = members(2, 3)
    world.see(*every)

    world.see(msgspec.structs.replace(every[0], labels={}, group=""))

    assert world.popped() == ["train-0"]
    assert world.state.gangs.of(every[1]) is not None


def test_a_gated_member_completes_the_gang_without_its_gate(world: World) -> None:
    every = members(2, 2)
    world.see(every[0], msgspec.structs.replace(every[1], gates=("x",)))
    assert world.popped() == []

    world.see(every[1])

    assert world.popped() == ["train-0"]


def test_pods_without_a_group_are_queued_as_before(world: World) -> None:
    world.see(pod("a"), pod("b", priority=9))

    assert [entry.pod.name for entry in world.queue.entries()] == ["a", "b"]
    assert world.popped() == ["b", "a"]


def test_members_wait_apart_where_their_group_is_no_gang(world: World) -> None:
    """A thousand pods of a group with the policy ``basic`` are not decided one per second."""
    world.tell(fold(world.state, ev.PodGroupsReplaced((), source=GangSource.API.value)), 0.0)
    world.see(*(of_pod_group(name, created=at) for at, name in enumerate("abc")))
    assert world.popped() == []

    world.tell(fold(world.state, ev.PodGroupUpdated(pod_group(None))), 0.1)

    assert world.popped(0.1) == ["a+b+c"]


def test_single_pods_become_a_gang_with_their_kind(world: World) -> None:
    world.see(*(of_pod_group(name) for name in "ab"))
    groups = ev.PodGroupsReplaced((pod_group(2),), source=GangSource.API.value)

    world.tell(fold(world.state, groups), 0.1)

    assert world.popped(0.1) == ["a"]
    [key] = [gang.key for gang in world.state.gangs]
    assert [entry.pod.name for entry in world.queue.members(key)] == ["b", "a"]
