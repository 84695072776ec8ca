"""Owners that cannot be read are read again: at once, after seconds, or after half a minute."""

from __future__ import annotations

from scheduler.controllers.migration.planner import BLOCKED_S
from scheduler.model.crd.migration_actions import ReadOwner
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.migration_world import Workload, World


def reading_owner() -> tuple[World, ReadOwner]:
    """A world that reads the owner of a pod which could be restored."""
    world = World(node("cut", mig={"2g.20gb": 1, "1g.10gb": 2}))
    holder = world.create(pod("bare", uid="", mig={"2g.20gb": 1}))
    assert holder is not None
    world.decide_due()
    world.add(Workload("web", replicas=2))
    world.remove(holder.uid)
    _, asked = next_read(world)
    return world, asked


def next_read(world: World) -> tuple[float, ReadOwner]:
    """The next read of an owner, and the seconds until then."""
    began = world.now
    while not (asked := [one for one in world.actions if isinstance(one, ReadOwner)]):
        assert world.now - began < 2 * BLOCKED_S[1], "no read"
        world.now += 1.0
        world.take_steps()
    world.actions.clear()
    return world.now - began, asked[0]


def test_owner_read_lost_with_the_lease_is_repeated_at_once() -> None:
    """A lease that is lost for a moment delays a restore by no backoff."""
    world, asked = reading_owner()

    world.deliver(ev.OwnerRead(asked.pod_uid, "", None, is_sent=False))
    world.now += 1.0
    world.take_steps()

    assert [type(one) for one in world.actions] == [ReadOwner]


def test_busy_api_server_is_asked_again_after_1_to_30_s() -> None:
    world, asked = reading_owner()
    pauses = []

    for _ in range(7):
        world.deliver(ev.OwnerRead(asked.pod_uid, "", None, is_busy=True))
        pause_s, asked = next_read(world)
        pauses.append(pause_s)

    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_refused_owner_read_is_repeated_after_30_to_600_s() -> None:
    """Short pauses after a busy API server do not shorten the first one."""
    world, asked = reading_owner()
    world.deliver(ev.OwnerRead(asked.pod_uid, "", None, is_busy=True))
    _, asked = next_read(world)
    pauses = []

    for _ in range(3):
        world.deliver(ev.OwnerRead(asked.pod_uid, "", None))
        pause_s, asked = next_read(world)
        pauses.append(pause_s)

    assert pauses == [30, 60, 120]
