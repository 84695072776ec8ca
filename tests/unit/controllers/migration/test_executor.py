"""A migration from its object to its result, with a clock that a test advances."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.crd.migration_actions import (
    CompleteMigration,
    CreateMigration,
    DeleteMigration,
    EvictPod,
    ReadOwner,
)
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from tests.builders import node, pod, restoring
from tests.degraded_workload import full, held
from tests.migration_world import Workload, World

MINUTE_S = 60.0
HOUR_S = 3600.0


@pytest.mark.contract("S3-B2", "S3-B7")
def test_one_freed_slice_migrates_one_pod() -> None:
    world, holder = full(Workload("web", 3))

    world.remove(holder.uid)
    world.pass_time(5)

    assert world.tiers("web") == ["1g.10gb", "1g.10gb", "2g.20gb"]
    assert [type(action) for _, action in world.writes] == [
        CreateMigration,
        EvictPod,
        CompleteMigration,
    ]
    world.pass_time(HOUR_S, 10)
    assert [type(action) for _, action in world.writes[3:]] == [DeleteMigration]
    assert (world.stored, world.results) == ({}, [("Restore", "succeeded")])
    assert [reason for _, reason, _ in world.notes] == ["Restoring", "Restored"]
    world.check()


def test_the_pod_is_evicted_only_after_its_ticket_was_seen() -> None:
    world, holder = full(Workload("web"))
    world.remove(holder.uid)
    while not any(isinstance(action, CreateMigration) for action in world.actions):
        world.now += 1.0
        world.take_steps()
        if world.actions and isinstance(world.actions[0], ReadOwner):
            world.run_one()

    for _ in range(5):
        world.now += 1.0
        world.take_steps()
        assert not any(isinstance(action, EvictPod) for action in world.actions)

    world.run_one()  # the ticket is stored, and our watch shows it
    assert any(isinstance(action, EvictPod) for action in world.actions)


@pytest.mark.contract("S3-B12")
@pytest.mark.parametrize("after", range(6))
def test_crash_after_any_action_is_resumed(after: int) -> None:
    """Also for a request without a response: the next process has only pods and objects."""
    world, holder = full(Workload("web"))
    world.remove(holder.uid)
    world.run_actions(after)

    world.restart()
    world.pass_time(2 * MINUTE_S)

    assert world.tiers("web") == ["1g.10gb", "2g.20gb"]
    assert world.open == {}
    assert len(world.sent(EvictPod)) <= 2
    world.check()


def test_ten_quiet_minutes_write_nothing() -> None:
    """A better tier is free for pods that may not be migrated; each gets one event."""
    world = World(node("cut", mig={"2g.20gb": 2, "1g.10gb": 3}))
    first, second = held(world, "first"), held(world, "second")
    world.add(Workload("one", 1))
    bare = held(world, "bare")
    world.remove(first.uid)
    world.remove(second.uid)
    world.pass_time(5 * MINUTE_S)
    said = len(world.notes)
    assert {reason for _, reason, _ in world.notes} == {"MigrationBlocked"}
    assert len(world.said(bare.name, "MigrationBlocked")) == 1

    world.pass_time(10 * MINUTE_S)

    assert (world.writes, len(world.notes)) == ([], said)


def test_briefly_free_slice_migrates_no_pod() -> None:
    world, holder = full(Workload("web"))

    for _ in range(20):
        world.remove(holder.uid)
        world.tick(0.5)
        holder = held(world)
        world.tick(0.5)

    assert world.writes == []


@pytest.mark.contract("S3-B6")
@pytest.mark.parametrize(
    ("priority", "got"),
    [
        pytest.param(0, "waits", id="equal"),
        pytest.param(-5, "waits", id="weaker"),
        pytest.param(5, "2g.20gb", id="stronger"),
    ],
)
def test_only_a_higher_priority_pod_takes_the_awaited_slice(priority: int, got: str) -> None:
    workload = Workload("web")
    world, holder = full(workload)
    workload.is_closed = True  # no replacement comes
    world.remove(holder.uid)
    world.pass_time(5)
    assert len(world.open) == 1

    off = {well_known.MIG_FALLBACK: "off"}
    newcomer = held(world, "new", priority=priority, annotations=off)

    node_name = world.pods[newcomer.uid].node_name
    assert ("2g.20gb" if node_name else "waits") == got


def test_waiting_equal_does_not_cost_the_replacement_its_tier() -> None:
    """Neither at the replacement's admission nor when it is placed."""
    workload = Workload("web")
    world, holder = full(workload)
    workload.is_closed = True
    world.remove(holder.uid)
    world.pass_time(5)
    waiting = held(world, "early", annotations={well_known.MIG_FALLBACK: "off"})
    assert world.pods[waiting.uid].node_name == ""

    workload.is_closed = False
    world.pass_time(5)

    assert world.tiers("web") == ["1g.10gb", "2g.20gb"]
    assert world.results == [("Restore", "succeeded")]


def test_new_pod_gets_a_lower_tier_while_a_migration_waits() -> None:
    workload = Workload("web")
    world, holder = full(workload)
    workload.is_closed = True
    world.remove(holder.uid)
    world.pass_time(5)

    newcomer = held(world, "new")

    assert newcomer.gpu_requests == {"nvidia.com/mig-1g.10gb": 1}


def test_quota_refusing_the_replacement_for_a_while_costs_nothing() -> None:
    """However often its controller tries meanwhile."""
    workload = Workload("web")
    world, holder = full(workload)
    workload.is_closed = True
    world.remove(holder.uid)
    world.pass_time(10, 0.1)
    workload.is_closed = False

    world.pass_time(5)

    assert world.tiers("web") == ["1g.10gb", "2g.20gb"]
    assert world.results == [("Restore", "succeeded")]


@pytest.mark.parametrize(
    ("meanwhile", "text"),
    [
        pytest.param("scaled", "was scaled down to 1", id="scaled-down"),
        pytest.param("edited", "the template of Deployment web changed", id="template-changed"),
        pytest.param("gone", "Deployment web is gone", id="owner-gone"),
        pytest.param("nothing", "not placed in time", id="deadline"),
    ],
)
def test_migration_without_effect_is_explained_on_the_owner(meanwhile: str, text: str) -> None:
    workload = Workload("web")
    world, holder = full(workload)
    workload.is_closed = True
    world.remove(holder.uid)
    world.pass_time(5)
    assert len(world.sent(EvictPod)) == 1

    if meanwhile == "scaled":
        workload.replicas = 1
    if meanwhile == "edited":
        workload.revision = "r2"
    if meanwhile == "gone":
        del world.workloads["web"]
    world.pass_time(70)

    assert world.open == {}
    [said] = world.said("web", "MigrationFailed")
    assert text in said
    world.workloads.clear()  # a controller that goes on trying is promised the slice
    world.pass_time(11)
    assert held(world, "next").gpu_requests == {"nvidia.com/mig-2g.20gb": 1}


@pytest.mark.contract("S3-B11")
def test_late_disruption_budget_is_respected() -> None:
    """A rejection by the API server ends the migration, and the next try waits."""
    workload = Workload("web", allowed=1)
    world, holder = full(workload)
    world.remove(holder.uid)
    while not any(isinstance(action, EvictPod) for action in world.actions):
        world.now += 1.0
        world.take_steps()
        while world.actions and not isinstance(world.actions[0], EvictPod):
            world.run_one()
    workload.allowed = 0
    world.pass_time(10 * MINUTE_S)

    assert len(world.sent(EvictPod)) == 1
    assert world.tiers("web") == ["1g.10gb", "1g.10gb"]
    assert ("Restore", "forbidden") in world.results


@pytest.mark.contract("S3-B2")
def test_migrations_without_effect_back_off_and_stop_after_three() -> None:
    """A pod of higher priority takes the slice each time before the replacement arrives."""
    workload = Workload("web")
    world, holder = full(workload)
    began: list[float] = []
    for _ in range(8 * 60):
        world.remove(holder.uid)
        workload.is_closed = True
        world.pass_time(10, 2)
        if len(world.sent(EvictPod)) > len(began):
            began.append(world.sent(EvictPod)[-1][0])
        holder = held(world, "thief", priority=10)
        workload.is_closed = False
        world.pass_time(50, 10)

    assert len(began) == 3
    first, second, third = began
    assert second - first >= 2 * MINUTE_S
    assert third - second >= 4 * MINUTE_S
    assert len(world.said("web", "MigrationSuspended")) == 1


def failed_move(number: int) -> list[ev.Event]:
    """The watch events of a migration without its tier, on any replica."""
    name = f"restore-{number}-0000000{number}"
    taker = pod(
        f"taker-{number}",
        mig={"1g.10gb": 1},
        owner="Deployment/web@r1",
        node="cut",
        annotations={well_known.MIGRATION: name},
    )
    migration = restoring(name, pod_name="web-1", pod_uid="gone", attempt=number)
    return [
        ev.MigrationUpdated(migration),
        ev.PodUpdated(taker),
        ev.MigrationDeleted(name),
        ev.PodDeleted(taker.uid),
    ]


@pytest.mark.parametrize(
    "news",
    [ev.MigrationDeleted("restore-1-x"), ev.MigrationsReplaced(())],
    ids=["deleted", "relist"],
)
def test_reservation_of_an_ended_migration_blocks_no_pod(news: ev.Event) -> None:
    world, _ = full(Workload("web"))
    world.deliver(ev.MigrationUpdated(restoring("restore-1-x", pod_uid="gone")))
    admitted = pod(
        "web-y", uid="", mig={"2g.20gb": 1}, annotations={well_known.MIGRATION: "restore-1-x"}
    )
    world.reservations.create("r-1", admitted, "cut", world.now, is_annotated=True)

    world.deliver(news)

    assert list(world.reservations.pending()) == []


def test_new_template_resets_the_failures() -> None:
    test = Workload("web")
    world, holder = full(test)
    world.leader.is_leading = False
    for number in range(1, 4):
        world.deliver(*failed_move(number))
    world.leader.is_leading = True
    world.remove(holder.uid)
    world.pass_time(10 * MINUTE_S, 5)
    assert world.writes == []
    holder = held(world)

    test.revision = "r2"
    world.pass_time(2 * MINUTE_S, 5)
    world.remove(holder.uid)
    world.pass_time(2 * MINUTE_S)

    assert world.tiers("web") == ["1g.10gb", "2g.20gb"]


def test_tier_on_which_a_pod_crashed_is_not_given_to_its_siblings() -> None:
    world, holder = full(Workload("web", 1, annotations={well_known.RESTORE: "auto"}))
    [crashing] = world.of("web")

    world.show(_crashed(crashing))
    world.remove(crashing.uid)
    world.settle()

    [waiting] = world.of("web")
    assert (waiting.node_name, waiting.gpu_requests) == ("", {"nvidia.com/mig-2g.20gb": 1})
    world.remove(holder.uid)
    world.pass_time(5)
    assert world.tiers("web") == ["2g.20gb"]


def test_failed_pod_is_looked_up_and_its_tier_is_not_given_again() -> None:
    """As a Job's, whose containers are not started again in place."""
    world, _ = full(Workload("web", 1, annotations={well_known.RESTORE: "auto"}))
    [failing] = world.of("web")

    world.remove(failing.uid)
    assert world.looked_up == [failing]
    world.deliver(ev.PodUpdated(msgspec.structs.replace(failing, phase="Failed", crashes=1)))
    world.settle()

    [waiting] = world.of("web")
    assert (waiting.node_name, waiting.gpu_requests) == ("", {"nvidia.com/mig-2g.20gb": 1})
    assert failing.uid not in world.cluster.pods


@pytest.mark.parametrize("how", ["deleted", "as-it-asked", "bare"])
def test_pods_deleted_for_known_reasons_are_not_looked_up(
    how: str,
) -> None:
    world, holder = full(Workload("web", 1))
    [degraded] = world.of("web")
    bare = held(world, "bare")
    assert bare.gpu_requests == {"nvidia.com/mig-1g.10gb": 1}
    if how == "deleted":
        world.show(msgspec.structs.replace(degraded, is_deleting=True))

    world.remove({"deleted": degraded, "as-it-asked": holder, "bare": bare}[how].uid)

    assert world.looked_up == []


def _crashed(shown: Pod) -> Pod:
    return msgspec.structs.replace(shown, crashes=2)
