"""The two tables of the loop: the order of handlers, their effects as values, their containment."""

from __future__ import annotations

import asyncio
import typing
from typing import Any

import pytest
import structlog
from msgspec import structs

from scheduler.controllers.dispatch import ActionRunner, EventRoutes, Shells
from scheduler.controllers.migration.planner import PlannerSettings
from scheduler.controllers.table import NOT_FOR_WAITING_PODS, Controllers, ControllerSettings
from scheduler.model import actions
from scheduler.model.crd.migration_actions import DeleteMigration, MigrationAction
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.pods.gang import GroupState, PodGroup
from scheduler.model.pods.pod import Unread
from scheduler.model.volumes.claim import Claim
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.invariant import InvariantViolation
from tests.builders import node, pod, restoring
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import Stage, playing

A = pod("a", gpus=1)
GROUP = PodGroup("team", "train", 2)
EVENT = ev.NodeUpdated(node("n1", gpus=1, with_gpu_indexes=True))
HANDLERS = [
    "reservations",
    "bindings",
    "node-events",
    "unreadable-objects",
    "node-avoidance",
    "devices",
    "migrations",
    "cluster-cache",
    "mig-partitions",
    "volume-binding",
    "claim-allocation",
    "claim-collisions",
    "preemption",
    "coming-room",
]
TICKERS = [
    "reservations",
    "queue",
    "node-events",
    "unreadable-objects",
    "node-avoidance",
    "devices",
    "cluster-cache",
    "migrations",
    "mig-partitions",
    "volume-binding",
    "claim-allocation",
    "claim-collisions",
    "preemption",
    "gang-scheduling",
    "pod-groups",
    "group-owners",
    "coming-room",
    "nominations",
    "reclaim",
    "gauges",
]


class Boom(Exception):
    """Raised by a handler of these tests."""


class Probe:
    """A handler and ticker that notes what it sees, and returns what it is given."""

    handles = ev.EVERY

    def __init__(
        self, name: str, stage: Stage, effects: Effects = (), problem: Exception | None = None
    ) -> None:
        self.name = name
        self.saw: list[bool] = []
        self._stage = stage
        self._effects = effects
        self._problem = problem

    def handle(self, event: ev.Event, now: float) -> Effects:
        self.saw.append("n1" in self._stage.loop.cluster.nodes.node_info)
        if self._problem is not None:
            raise self._problem
        return self._effects

    def tick(self, now: float, *, leads: bool) -> Effects:
        return self.handle(EVENT, now)


def note(name: str, text: str = "") -> actions.RecordPodEvent:
    return actions.RecordPodEvent(A, name, text)


def put(stage: Stage, probe: Probe) -> Probe:
    """The probe takes the place of the handler and ticker of its name."""
    tables = stage.controllers
    tables.events = EventRoutes(
        [probe if one.name == probe.name else one for one in tables.events.handlers],
        NOT_FOR_WAITING_PODS,
    )
    tables.tickers = tuple(probe if one.name == probe.name else one for one in tables.tickers)
    return probe


def with_migrations() -> Controllers:
    """The controllers of a scheduler that migrates pods."""
    return Stage(settings=ControllerSettings(migrations=PlannerSettings())).controllers


async def happens(stage: Stage) -> None:
    """A node appears, and a second passes."""
    async with playing(stage):
        stage.sync()
        stage.see(EVENT)
        await stage.quiet()
        stage.pass_time(2)
        await stage.quiet()


def test_the_order_of_both_tables_is_fixed() -> None:
    controllers = Stage().controllers

    assert [one.name for one in controllers.events.handlers] == HANDLERS
    assert [one.name for one in controllers.tickers] == TICKERS


#: The handlers of events about a pod: "every pod" of one that has a node or ended.
EVERY_POD = [
    name
    for name in HANDLERS
    if name not in ("bindings", "node-events", "claim-collisions", "coming-room")
]
WAITING_POD = ["reservations", "node-avoidance", "migrations", "cluster-cache"]
ROUTES: list[tuple[ev.Event, list[str]]] = [
    (ev.PodUpdated(A), WAITING_POD),
    (ev.PodUpdated(structs.replace(A, gates=("x",))), WAITING_POD),
    (ev.PodUpdated(structs.replace(A, node_name="n1")), EVERY_POD),
    (ev.PodUpdated(structs.replace(A, phase="Failed")), EVERY_POD),
    (ev.PodUpdated(structs.replace(A, is_deleting=True)), EVERY_POD),
    (ev.PodUpdated(structs.replace(A, unread=Unread(rest="x"))), EVERY_POD),
    (
        ev.PodDeleted(A.uid),
        [*(name for name in EVERY_POD if name != "unreadable-objects"), "coming-room"],
    ),
    (ev.PodsReplaced((A,)), [name for name in EVERY_POD if name != "preemption"]),
    (
        ev.NodeUpdated(node("n1")),
        ["node-events", "unreadable-objects", "devices", "migrations", *HANDLERS[-7:-4]],
    ),
    (
        ev.BindEnded(A.uid, ev.BindOutcome.BOUND),
        ["bindings", "node-avoidance", "migrations", "cluster-cache", "claim-allocation"],
    ),
    (ev.PodRejected(A.uid, "x"), ["node-avoidance", "migrations"]),
    (ev.PodRecreated(A, 1, "replaced"), ["migrations"]),
    (ev.StorageDeleted(Claim, "team/data"), ["migrations", "cluster-cache", "volume-binding"]),
    (ev.DraDeleted(ResourceClaim, "team/gpu"), ["migrations", "cluster-cache", "claim-allocation"]),
    (ev.ClaimsReserved(A.uid, 1), ["migrations", "cluster-cache", "claim-allocation"]),
    (ev.ClaimsReleased(A.uid), ["migrations", "cluster-cache"]),
    (ev.VolumesWritten(A.uid, 1), ["migrations", "volume-binding"]),
    (ev.BudgetDeleted("team", "web"), ["migrations", "cluster-cache"]),
    (ev.PreemptionEnded(A, "n1", ()), ["migrations", "preemption"]),
]


@pytest.mark.parametrize(("event", "names"), ROUTES)
def test_an_event_goes_to_the_handlers_that_it_concerns(event: ev.Event, names: list[str]) -> None:
    routes = with_migrations().events

    assert [one.name for one in routes.of(event)] == names


def test_every_type_of_event_has_a_handler() -> None:
    handlers = with_migrations().events.handlers

    handled = {kind for one in handlers if one.name != "migrations" for kind in one.handles}
    assert handled | {*typing.get_args(ev.MigrationEvent), ev.PodRecreated} == set(ev.EVERY)


@pytest.mark.parametrize("name", [name for name in HANDLERS if name != "cluster-cache"])
async def test_handlers_before_the_cluster_cache_see_the_former_state(
    name: str,
) -> None:
    stage = Stage()
    probe = put(stage, Probe(name, stage))
    await happens(stage)

    is_after = HANDLERS.index(name) > HANDLERS.index("cluster-cache")
    assert probe.saw[0] is is_after


async def test_effects_run_in_the_order_of_the_table_after_the_last_handler() -> None:
    stage = Stage()
    for name in ("reservations", "devices", "mig-partitions"):
        put(stage, Probe(name, stage, (note(name, "1"), note(name, "2"))))
    async with playing(stage):
        stage.see(EVENT)
        said = [await stage.recorder.next() for _ in range(6)]

    assert [one[1:] for one in said] == [
        (name, text)
        for name in ("reservations", "devices", "mig-partitions")
        for text in ("1", "2")
    ]


async def test_changes_and_actions_run_in_the_returned_order() -> None:
    """So that the failure of a pod finds its placement, which is dropped afterwards."""
    stage = Stage()
    failed = ev.BindFailed(A, "text")
    put(stage, Probe("migrations", stage, (note("before"), failed, note("after"))))
    async with playing(stage):
        stage.see(ev.PodUpdated(A))
        said = [(await stage.recorder.next())[1] for _ in range(3)]

    assert said == ["before", "SchedulerError", "after"]


@pytest.mark.parametrize("part", ["event", "tick"])
@pytest.mark.parametrize("name", sorted({*HANDLERS, *TICKERS} - {"cluster-cache"}))
async def test_a_handler_that_fails_stops_no_other_and_is_named(name: str, part: str) -> None:
    stage = Stage()
    put(stage, Probe(name, stage, problem=Boom()))
    with structlog.testing.capture_logs() as lines:
        async with playing(stage):
            stage.sync()
            stage.see(EVENT, ev.PodUpdated(A))
            if name != "bindings":
                placement = await stage.binder.next()
                assert placement.node_name == "n1"
            await stage.quiet()
            stage.pass_time(2)
            await stage.quiet()

    named = [one for one in lines if one.get("about") == name and one["part"] == part]
    table = HANDLERS if part == "event" else TICKERS
    assert bool(named) is (name in table)


async def test_an_effect_that_fails_stops_no_other() -> None:
    """CompleteStep fails, because no placement of the pod is known."""
    stage = Stage()
    put(stage, Probe("devices", stage, (actions.CompleteStep("unknown", "volumes"), note("after"))))
    async with playing(stage):
        stage.see(EVENT)
        assert (await stage.recorder.next())[1] == "after"
        assert stage.sample("gpu_scheduler_internal_errors_total", part="event") == 1


async def test_a_broken_state_passes_every_containment() -> None:
    stage = Stage()
    put(stage, Probe("devices", stage, problem=InvariantViolation("the state is wrong")))
    stage.see(EVENT)

    with pytest.raises(InvariantViolation, match="the state is wrong"):
        async with asyncio.timeout(PATIENCE_S):
            await stage.loop.run()


async def test_a_list_that_cannot_be_folded_at_all_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its objects would be missing from the state for good."""

    def fail(*_: Any) -> None:
        raise Boom

    monkeypatch.setattr("scheduler.controllers.cluster_cache.apart", fail)
    stage = Stage()
    stage.see(ev.NodesReplaced((node("n1"),)))

    with pytest.raises(InvariantViolation, match="NodesReplaced"):
        async with asyncio.timeout(PATIENCE_S):
            await stage.loop.run()


# --- the dispatcher ---------------------------------------------------------------------------


class Double:
    """Every shell at once: notes which of them gets an action."""

    def __init__(self, name: str, calls: list[tuple[str, str]]) -> None:
        self._name = name
        self._calls = calls

    def __getattr__(self, method: str) -> Any:
        return lambda *_: self._calls.append((self._name, method))


MIGRATION = restoring("restore-1-0a1b2c3d")
SENT = [
    (note("x"), ("recorder", "record")),
    (actions.RecordNodeEvent(node(), "x", ""), ("recorder", "record")),
    (actions.RecordOwnerEvent("team", MIGRATION.owner, "x", ""), ("recorder", "record")),
    (actions.RecordScheduled(A, "n1"), ("recorder", "record")),
    (actions.RecordUnscheduled(A, ""), ("recorder", "record")),
    (actions.RecordWaiting(A, "", "n1"), ("recorder", "record")),
    (actions.RecordPreempted(A, A, "n1"), ("recorder", "record")),
    (actions.DropCondition(A.uid), ("recorder", "record")),
    (actions.ForgetPod(A.uid), ("recorder", "record")),
    (actions.LookUpPod(A), ("terminated_pods", "look_up")),
    (actions.RecreatePod(A, 1), ("recreator", "send")),
    (actions.PreemptPods(A, "n1", (A,)), ("preemptor", "send")),
    (actions.RequestPartitions("n1", ()), ("partitions", "send")),
    (actions.SetMigConfig("n1", "all-1g.10gb"), ("partitions", "send")),
    (actions.CompleteStep(A.uid, "volumes"), ("bindings", "complete")),
    (actions.WriteVolumes(A.uid, 1, ()), ("volumes", "send")),
    (actions.ReserveClaims(A.uid, "a", 1, ()), ("claims", "send")),
    (actions.ReleaseClaims(A.uid, ()), ("claims", "send")),
    (actions.ReadGroupOwner(GROUP.key), ("group_owners", "send")),
    (actions.WriteGroupState(GROUP, GroupState(True, "Scheduled")), ("groups", "send")),
    (actions.DropPlacement(A.uid), ("bindings", "drop")),
    (DeleteMigration(MIGRATION), ("migrations", "send")),
]


@pytest.mark.parametrize(("action", "call"), SENT, ids=[type(one).__name__ for one, _ in SENT])
def test_an_action_goes_to_its_shell(action: actions.Action, call: tuple[str, str]) -> None:
    calls: list[tuple[str, str]] = []
    shells: Any = {name: Double(name, calls) for name in Shells.__struct_fields__}
    bindings: Any = Double("bindings", calls)

    ActionRunner(Shells(**shells), bindings).run(action)

    assert calls == [call]


def test_every_kind_of_action_is_in_this_list() -> None:
    kinds = set(typing.get_args(actions.Action)) - set(typing.get_args(MigrationAction))

    assert {type(action) for action, _ in SENT} == {*kinds, DeleteMigration}


def test_an_event_without_effects_makes_no_value() -> None:
    """Heartbeats are most of all events."""
    for handler in Stage().controllers.events.handlers:
        assert handler.handle(ev.NamespaceDeleted("gone"), 0.0) is NOTHING
