"""An internal error concerns one object only; only a contradictory state ends the process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import structlog

from scheduler.controllers.migration.controller import NoMigration
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod, Unread
from scheduler.report.containment import Containment, identity
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import Effects
from scheduler.state.invariant import InvariantViolation
from scheduler.watch.decode import objects
from tests.builders import GPU, dynamic, node, pod, pod_json
from tests.dra import device_class, resource_claim, resource_slice
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import Stage, playing

TWO_GPUS = ev.NodeUpdated(node(gpus=2, with_gpu_indexes=True))
ID = re.compile(r"internal error ([0-9a-f]{8}) ")


class Boom(Exception):
    """What a bug of ours raises."""


def failing_at(
    *names: str, problem: Exception | None = None
) -> Callable[[Cluster, Pod, Pipeline, Budget], Decision]:
    """Decides as always, and fails at pods of these names."""

    def decider(view: Cluster, newcomer: Pod, pipeline: Pipeline, work: Budget) -> Decision:
        if newcomer.name in names:
            raise problem or Boom("no such thing")
        return schedule_one(view, newcomer, pipeline, work)

    return decider


def errors(stage: Stage, part: str) -> float:
    return stage.sample("gpu_scheduler_internal_errors_total", part=part)


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(Boom("no such thing"), id="any"),
        pytest.param(AssertionError("ours"), id="an-assertion-of-ours"),
        pytest.param(RecursionError(), id="recursion"),
        pytest.param(MemoryError(), id="memory"),
    ],
)
async def test_failing_pod_waits_with_a_reason_and_other_pods_go_on(
    problem: Exception,
) -> None:
    stage = Stage(decider=failing_at("bad", problem=problem))
    async with playing(stage):
        stage.sync()
        stage.see(TWO_GPUS, ev.PodUpdated(pod("bad", gpus=1)), ev.PodUpdated(pod("good", gpus=1)))

        assert (await stage.binder.next()).pod.name == "good"
        name, reason, text = await stage.recorder.next()
        assert (name, reason) == ("bad", "SchedulerError")
        assert ID.search(text)
        assert errors(stage, "decision") == 1
        assert stage.sample("gpu_scheduler_rejections_total", code="INTERNAL") == 1


async def test_the_condition_and_the_log_have_one_id_for_one_problem() -> None:
    stage = Stage(decider=failing_at("bad"))
    with structlog.testing.capture_logs() as lines:
        async with playing(stage):
            stage.sync()
            stage.see(TWO_GPUS, ev.PodUpdated(pod("bad", gpus=1)))
            await stage.recorder.next()
            stage.pass_time(2)
            await stage.recorder.next()

    said = {text for _, what, text in stage.recorder.said if what == "SchedulerError"}
    [number] = {found[1] for text in said if (found := ID.search(text))}
    told = [line for line in lines if line.get("id") == number]
    assert [bool(line["exc_info"]) for line in told] == [True, False], "one traceback is enough"
    assert told[0]["about"] == "team/bad"


async def test_failing_pod_is_retried_after_backoff_and_on_change() -> None:
    stage = Stage(decider=failing_at("bad"))
    async with playing(stage):
        stage.sync()
        stage.see(TWO_GPUS, ev.PodUpdated(pod("bad", gpus=1)))
        await stage.recorder.next()
        await stage.quiet()
        assert errors(stage, "decision") == 1
        assert stage.loop.queue.sizes()["backoff"] == 1

        stage.pass_time(2)
        await stage.recorder.next()
        assert errors(stage, "decision") == 2

        stage.see(ev.PodUpdated(pod("bad", gpus=1, labels={"x": "y"})))
        await stage.recorder.next()
        assert errors(stage, "decision") == 3


async def test_repaired_pod_is_placed() -> None:
    failing: list[str] = ["bad"]
    stage = Stage(
        decider=lambda *asked: failing_at(*failing)(*asked),
    )
    async with playing(stage):
        stage.sync()
        stage.see(TWO_GPUS, ev.PodUpdated(pod("bad", gpus=1)))
        await stage.recorder.next()
        failing.clear()
        stage.pass_time(2)

        assert (await stage.binder.next()).pod.name == "bad"


async def test_failing_batch_is_decided_pod_by_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise Boom

    monkeypatch.setattr("scheduler.loop.plan_batch", fail)
    stage = Stage()
    async with playing(stage):
        stage.sync()
        stage.see(
            ev.NodeUpdated(dynamic()),
            ev.PodUpdated(pod("a", mig={"1g.10gb": 1})),
            ev.PodUpdated(pod("b", mig={"1g.10gb": 1})),
        )
        placed = {(await stage.recorder.next())[:2] for _ in range(2)}
        assert placed == {("a", "PartitionRequested"), ("b", "PartitionRequested")}
        assert errors(stage, "decision") >= 1


async def test_broken_accounting_ends_the_process() -> None:
    stage = Stage(decider=failing_at("bad", problem=InvariantViolation("node n1 has gone mad")))
    stage.sync()
    stage.see(TWO_GPUS, ev.PodUpdated(pod("bad", gpus=1)))

    with pytest.raises(InvariantViolation, match="gone mad"):
        async with asyncio.timeout(PATIENCE_S):
            await stage.loop.run()


# --- events -----------------------------------------------------------------------------------


class FailingMigrations(NoMigration):
    """Migrations whose every call fails."""

    handles = ev.EVERY

    def handle(self, event: ev.Event, now: float) -> Effects:
        raise Boom

    def tick(self, now: float, *, leads: bool) -> Effects:
        raise Boom


async def test_failing_migrations_do_not_stop_placements() -> None:
    stage = Stage(migrations=FailingMigrations())
    async with playing(stage):
        stage.sync()
        stage.see(TWO_GPUS, ev.PodUpdated(pod("a", gpus=1)))
        assert (await stage.binder.next()).pod.name == "a"
        stage.pass_time(2)
        await stage.quiet()
        assert errors(stage, "event") == 2
        assert errors(stage, "tick") == 1


def failing_fold(monkeypatch: pytest.MonkeyPatch, is_bad: Callable[[Pod], bool]) -> None:
    """The accounting fails at a pod until every written part of it is removed."""
    see = Cluster.upsert_pod

    def upsert_pod(self: Cluster, seen: Pod) -> list[ev.Change]:
        changes = see(self, seen)
        if is_bad(seen):
            raise Boom
        return changes

    monkeypatch.setattr(Cluster, "upsert_pod", upsert_pod)


@pytest.mark.parametrize("is_listed", [True, False], ids=["in-a-list", "alone"])
async def test_accounting_failure_of_a_pod_closes_only_its_node(
    monkeypatch: pytest.MonkeyPatch, is_listed: bool
) -> None:
    failing_fold(monkeypatch, lambda one: one.name == "bad" and not one.unread)
    bad, waits = pod("bad", gpus=1, node="n1", scheduler="other"), pod("waits", gpus=1)
    stage = Stage()
    async with playing(stage):
        stage.sync()
        stage.see(
            ev.NodesReplaced(
                (node(gpus=2, with_gpu_indexes=True), node("n2", gpus=1, with_gpu_indexes=True))
            )
        )
        stage.see(
            *([ev.PodsReplaced((bad, waits))] if is_listed else map(ev.PodUpdated, (bad, waits)))
        )

        assert (await stage.binder.next()).node_name == "n2"
        assert errors(stage, "event") == 1
        assert stage.loop.cluster.nodes.node_info["n1"].unread == 1


async def test_accounting_failure_at_an_unowned_pod_says_what_to_delete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing_fold(monkeypatch, lambda one: one.name == "bad")
    stage = Stage()
    stage.see(ev.PodUpdated(pod("bad", uid="u1")))

    with pytest.raises(InvariantViolation, match=r"delete pod team/bad \(uid u1\)"):
        async with asyncio.timeout(PATIENCE_S):
            await stage.loop.run()


# --- objects that cannot be read --------------------------------------------------------------


def unreadable(name: str, **fields: Any) -> Pod:
    """A pod with a request that is no quantity."""
    body = pod_json(name, **fields)
    body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "many"}
    return objects.read_pod(msgspec.json.encode(body))


async def test_unreadable_pod_waits_with_a_reason() -> None:
    stage = Stage()
    async with playing(stage):
        stage.sync()
        stage.see(TWO_GPUS, ev.PodUpdated(unreadable("odd")))

        name, reason, text = await stage.recorder.next()
        assert (name, reason) == ("odd", "UnreadablePod")
        assert "unreadable: 'many' is not a quantity" in text


async def test_unreadable_placed_pod_closes_its_node_until_it_can_be_read() -> None:
    stage = Stage()
    async with playing(stage):
        stage.sync()
        stage.see(TWO_GPUS, ev.PodUpdated(unreadable("odd", node="n1", scheduler="other")))
        stage.see(ev.PodUpdated(pod("a", gpus=1)), ev.PodUpdated(pod("b", requests={"cpu": "1"})))
        for _ in range(2):
            *_, text = await stage.recorder.next()
            assert "1 node(s) run a pod whose requests cannot be read" in text
        assert stage.sample("gpu_scheduler_unreadable_objects_total", kind="pods") == 1

        stage.pass_time(1)
        stage.see(ev.PodUpdated(pod("odd", gpus=1, node="n1", scheduler="other")))
        await stage.quiet()
        stage.pass_time(9)
        assert (await stage.binder.next()).node_name == "n1"


async def test_leader_reports_unreadable_objects_by_event() -> None:
    stage = Stage()
    async with playing(stage):
        stage.sync()
        stage.see(ev.NodeUpdated(node(gpus=300, with_gpu_indexes=True)))
        stage.see(ev.PodUpdated(unreadable("odd", node="n1", scheduler="other")))
        await stage.quiet()
        stage.pass_time(2)
        await stage.quiet()
        stage.pass_time(2)
        await stage.quiet()

    said = [(name, what) for name, what, _ in stage.recorder.said]
    assert said.count(("n1", "NodeUnreadable")) == 1
    assert said.count(("odd", "PodUnreadable")) == 1


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        pytest.param(resource_slice("n1", "gpu-0"), "resourceslices", id="slice"),
        pytest.param(device_class(), "deviceclasses", id="class"),
        pytest.param(resource_claim(), "resourceclaims", id="claim"),
    ],
)
async def test_unreadable_objects_of_dra_are_counted_once(item: Any, kind: str) -> None:
    stage = Stage()
    odd = msgspec.structs.replace(item, unread="too long")
    async with playing(stage):
        stage.see(ev.DraUpdated(item), ev.DraUpdated(odd), ev.DraReplaced(type(odd), (odd,)))
        await stage.quiet()

    assert stage.sample("gpu_scheduler_unreadable_objects_total", kind=kind) == 1


def test_unreadable_fields_are_part_of_the_equivalence_class() -> None:
    """Else an unreadable pod's answer would be given to those that can be read."""
    plain = pod("a")
    odd = msgspec.structs.replace(plain, unread=Unread(rest="x"))

    assert plain.equivalence_class != odd.equivalence_class
    assert plain.decision_inputs() != odd.decision_inputs()


# --- the containment itself --------------------------------------------------------------------


def test_problem_id_is_stable_and_per_pod() -> None:
    def raised(text: str) -> Exception:
        try:
            raise Boom(text)
        except Boom as problem:
            return problem

    assert identity("team/a", raised("1")) == identity("team/a", raised("2"))
    assert identity("team/a", raised("1")) != identity("team/b", raised("1"))


def test_cancellation_is_no_problem_to_contain() -> None:
    contain = Containment(Metrics("gpu-scheduler"))

    with pytest.raises(asyncio.CancelledError), contain("tick", "x"):
        raise asyncio.CancelledError


def test_failed_placement_releases_its_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    stage.see(TWO_GPUS, ev.PodUpdated(pod("a", gpus=1)))

    def fail(*_: Any) -> None:
        raise Boom

    monkeypatch.setattr(stage.binder, "start", fail)
    stage.sync()

    async def play() -> None:
        async with playing(stage):
            await stage.recorder.next()

    asyncio.run(play())
    assert stage.loop.cluster.nodes.node_info["n1"].free(GPU) == 2
    assert stage.loop.cluster.assumed == {}
