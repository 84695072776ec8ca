"""The loop from events to decisions: Bindings, reports, and waits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.state import event as ev
from tests.builders import GPU, node, pod
from tests.unit.loop.loop_world import Stage, playing

ONE_GPU = ev.NodeUpdated(node(gpus=1, with_gpu_indexes=True))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with playing(Stage()) as playing_stage:
        playing_stage.sync()
        yield playing_stage


@pytest.mark.contract("S2-8")
async def test_waiting_pod_is_decided_bound_and_reported(stage: Stage) -> None:
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1)))
    placement = await stage.binder.next()
    assert (placement.node_name, placement.devices) == ("n1", Devices(numbers=(0,)))
    assert (stage.loop.cluster.nodes.node_info["n1"].free(GPU), len(stage.loop.queue)) == (0, 0)
    assert stage.recorder.forgotten == [placement.pod.uid], "it is not unschedulable any more"

    stage.confirm(placement)
    assert await stage.recorder.next() == ("a", "Scheduled", "n1")
    await stage.quiet()
    assert (stage.loop.cluster.assumed, len(stage.loop.queue)) == ({}, 0)
    assert (
        stage.sample(
            "gpu_scheduler_schedule_attempts_total", result="scheduled", profile="gpu-scheduler"
        )
        == 1
    )


async def test_nothing_is_decided_before_every_cache_is_filled() -> None:
    async with playing(Stage()) as stage:
        stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1)))
        await stage.quiet()
        assert (stage.binder.sent, stage.gate.is_open()) == ([], False)

        stage.sync()
        assert (await stage.binder.next()).pod.name == "a"
        assert stage.gate.is_open()


@pytest.mark.contract("S2-B12")
async def test_standby_caches_state_and_decides_nothing(stage: Stage) -> None:
    stage.leader.is_leading = False
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1)))
    await stage.quiet()
    assert (stage.binder.sent, stage.gate.is_open()) == ([], False)
    assert len(stage.loop.queue) == 1

    stage.leader.is_leading = True
    stage.inbox.wake()
    assert (await stage.binder.next()).pod.name == "a"


async def test_former_leader_with_due_pods_does_not_spin(stage: Stage) -> None:
    """Its queue is not worked off any more; it must not turn round and round over it."""
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1)))
    stage.binder.end(await stage.binder.next(), ev.BindOutcome.REFUSED, "no")
    await stage.recorder.next()
    stage.leader.is_leading = False
    stage.pass_time(60)
    await stage.quiet()
    before = stage.clock.readings
    await stage.quiet()
    await stage.quiet()

    assert stage.clock.readings - before < 20


@pytest.mark.contract("S2-B7", "S2-9")
async def test_refused_pod_gets_a_reason_and_is_retried_with_a_new_node(
    stage: Stage,
) -> None:
    stage.see(ev.PodUpdated(pod("a", gpus=1)))
    assert await stage.recorder.next() == (
        "a",
        "Unschedulable",
        "no nodes available to schedule pods",
    )
    stage.see(ONE_GPU)

    assert (await stage.binder.next()).node_name == "n1"
    assert stage.sample("gpu_scheduler_rejections_total", code="NO_NODES") == 1


async def test_capacity_added_during_a_decision_is_not_missed(stage: Stage) -> None:
    """Semantics case 7: retried within its pause, not after five minutes."""
    stage.see(
        ev.NodeUpdated(node(gpus=0, with_gpu_indexes=True)),
        ev.PodUpdated(pod("a", gpus=1)),
        ONE_GPU,
    )
    await stage.quiet()
    stage.pass_time(1)

    assert (await stage.binder.next()).node_name == "n1"


async def test_a_batch_ends_after_eight_rejections() -> None:
    """Their conditions are sent while the other pods are decided."""
    stage = Stage()
    for number in range(20):
        stage.loop.queue.add(pod(f"p{number}", gpus=1), stage.clock())

    assert stage.loop._decide_batch(stage.clock())

    assert len(stage.recorder.said) == 8


async def test_own_condition_update_starts_no_attempt(
    stage: Stage,
) -> None:
    """Semantics case 9."""
    stage.see(ev.PodUpdated(pod("a", gpus=1)))
    _, reason, message = await stage.recorder.next()
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
    }
    stage.see(ev.PodUpdated(pod("a", gpus=1, status={"conditions": [condition]})))
    stage.pass_time(60)
    await stage.quiet()

    assert len(stage.recorder.said) == 1


async def test_unrelated_change_requeues_no_pod(stage: Stage) -> None:
    """Semantics case 6."""
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=2)))
    await stage.recorder.next()
    stage.see(ONE_GPU, ev.PodUpdated(pod("other", scheduler="default-scheduler")))
    stage.pass_time(60)
    await stage.quiet()

    assert len(stage.recorder.said) == 1


async def test_every_pod_is_retried_within_five_minutes(stage: Stage) -> None:
    """Semantics case 11."""
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=2)))
    await stage.recorder.next()
    stage.pass_time(301)

    assert (await stage.recorder.next())[0] == "a"


async def test_a_pod_deleted_before_its_turn_is_never_bound(stage: Stage) -> None:
    """Semantics case 3."""
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1)), ev.PodDeleted(pod("a").uid))
    stage.see(ev.PodUpdated(pod("b", gpus=1)))

    assert (await stage.binder.next()).pod.name == "b"
    assert [one.pod.name for one in stage.binder.sent] == ["b"]


async def test_gated_pods_wait_for_the_last_gate(stage: Stage) -> None:
    """Semantics case 2, field case C29."""
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1, gates=["x.example/hold"])))
    await stage.quiet()
    assert (stage.binder.sent, stage.recorder.said) == ([], [])

    stage.see(ev.PodUpdated(pod("a", gpus=1)))
    assert (await stage.binder.next()).pod.name == "a"


async def test_the_stronger_and_then_the_older_pod_goes_first(stage: Stage) -> None:
    """Semantics case 5."""
    stage.leader.is_leading = False
    stage.see(ONE_GPU)
    for name, priority, created in (("low", 1, 0), ("old", 5, 1), ("young", 5, 2)):
        stage.see(ev.PodUpdated(pod(name, gpus=1, priority=priority, created=created)))
    stage.leader.is_leading = True

    assert (await stage.binder.next()).pod.name == "old"
    await stage.quiet()
    assert [name for name, *_ in stage.recorder.said] == ["young", "low"]


async def test_failed_binding_frees_the_device_and_requeues_the_pod(stage: Stage) -> None:
    """Semantics cases 12 and 27."""
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1)))
    first = await stage.binder.next()
    stage.see(ev.PodUpdated(pod("b", gpus=1, created=9)))
    assert (await stage.recorder.next())[:2] == ("b", "Unschedulable")

    stage.binder.end(first, ev.BindOutcome.REFUSED, "quota says no")
    assert await stage.recorder.next() == ("a", "SchedulerError", "binding failed: quota says no")
    stage.pass_time(1)
    assert (await stage.binder.next()).pod.name in ("a", "b")
    assert (
        stage.sample(
            "gpu_scheduler_schedule_attempts_total", result="error", profile="gpu-scheduler"
        )
        == 1
    )


async def test_permanently_failing_binding_starves_no_other_pod(stage: Stage) -> None:
    """Field case C29: an answer takes a moment, in which its pod holds the place."""
    doomed, fine = pod("doomed", gpus=1, priority=1000), pod("fine", gpus=1)
    stage.see(ONE_GPU, ev.PodUpdated(doomed), ev.PodUpdated(fine))
    placement = await stage.binder.next()
    assert placement.pod.name == "doomed"
    await stage.quiet()
    stage.pass_time(0.01)
    stage.binder.end(placement, ev.BindOutcome.REFUSED, "403")
    await stage.quiet()
    stage.pass_time(0.99)

    assert (await stage.binder.next()).pod.name == "fine"
    assert ("doomed", "SchedulerError", "binding failed: 403") in stage.recorder.said
    assert "Scheduled" not in [what for name, what, _ in stage.recorder.said if name == "doomed"]


async def test_unsent_binding_requeues_without_an_event(stage: Stage) -> None:
    """We stopped leading between the decision and its Binding."""
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1)))
    placement = await stage.binder.next()
    stage.leader.is_leading = False
    stage.binder.end(placement, ev.BindOutcome.UNSENT)
    await stage.quiet()

    assert stage.recorder.said == []
    assert stage.loop.cluster.nodes.node_info["n1"].free(GPU) == 1
    assert len(stage.loop.queue) == 1


@pytest.mark.contract("S2-B1")
async def test_many_bindings_keep_the_loop_alive(stage: Stage) -> None:
    """The seed's scheduler stopped after its fifth success."""
    stage.see(ev.NodeUpdated(node(gpus=16, with_gpu_indexes=True)))
    for number in range(12):
        stage.see(ev.PodUpdated(pod(f"p{number}", gpus=1)))
        stage.confirm(await stage.binder.next())

    await stage.quiet()
    assert [what for _, what, _ in stage.recorder.said] == ["Scheduled"] * 12
    assert stage.sample("gpu_scheduler_binds_total", result="bound") == 12


async def test_watch_event_may_precede_the_binding_response(stage: Stage) -> None:
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1)))
    placement = await stage.binder.next()
    bound = pod("a", gpus=1, node="n1", devices="gpu:0")
    stage.see(ev.PodUpdated(bound))
    stage.binder.end(placement)

    assert await stage.recorder.next() == ("a", "Scheduled", "n1")


async def test_a_pod_deleted_while_it_is_bound_leaves_nothing_behind(stage: Stage) -> None:
    stage.see(ONE_GPU, ev.PodUpdated(pod("a", gpus=1)))
    placement = await stage.binder.next()
    stage.see(ev.PodDeleted(placement.pod.uid))
    stage.binder.end(placement, ev.BindOutcome.GONE)
    stage.see(ev.PodUpdated(pod("b", gpus=1)))

    assert (await stage.binder.next()).pod.name == "b"
    assert stage.recorder.said == []


async def test_a_restart_counts_what_was_bound_before(stage: Stage) -> None:
    """Semantics case 17, design 5.19."""
    held = pod("a", gpus=1, node="n1", devices="gpu:0")
    stage.see(
        ev.NodeUpdated(node(gpus=2, with_gpu_indexes=True)),
        ev.PodsReplaced((held, pod("b", gpus=1))),
    )

    assert (await stage.binder.next()).devices.numbers == (1,)


async def test_notes_are_sent_after_a_successful_binding(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(node()), ev.PodUpdated(pod("w-0", map="0=n1:0")))
    stage.confirm(await stage.binder.next())

    assert await stage.recorder.next() == ("w-0", "Scheduled", "n1")
    assert (await stage.recorder.next())[1] == "EnvironmentNotSet"


async def test_a_map_follows_an_alias_that_goes_to_another_node(stage: Stage) -> None:
    """Although the one that had it said no, and is the only node that the map meant then."""
    alias = {"gpu-node-name": "alias"}
    stage.see(ev.NodeUpdated(node("n1", gpus=0, labels=alias)))
    stage.see(ev.PodUpdated(pod("w-0", gpus=1, map="0=alias:0")))
    assert (await stage.recorder.next())[1] == "WaitingForMappedNode"
    stage.pass_time(10)

    stage.see(ev.NodeUpdated(node("n1", gpus=0)), ev.NodeUpdated(node("n2", gpus=1, labels=alias)))

    assert (await stage.binder.next()).node_name == "n2"


# --- promises ------------------------------------------------------------------------


def promised(stage: Stage) -> ev.PodUpdated:
    """A reservation made at admission, and its pod as the watch shows it."""
    asked = pod("web-", mig={"2g.20gb": 1}, uid="")
    stage.loop.reservations.create("r-1", asked, "n1", stage.clock.now, is_annotated=True)
    tag = {well_known.RESERVATION: "r-1"}
    return ev.PodUpdated(pod("web-x", mig={"2g.20gb": 1}, annotations=tag))


async def test_reservation_lasts_until_its_pod_is_bound(stage: Stage) -> None:
    seen = promised(stage)
    stage.see(ev.NodeUpdated(node(mig={"2g.20gb": 1})), seen)
    first = await stage.binder.next()
    stage.binder.end(first, ev.BindOutcome.REFUSED, "not now")
    await stage.recorder.next()
    assert len(stage.loop.reservations) == 1, "its Binding failed, so it still needs its tier"

    stage.pass_time(2)
    stage.confirm(await stage.binder.next())
    await stage.recorder.next()
    await stage.quiet()
    assert len(stage.loop.reservations) == 0


async def test_reservation_without_a_pod_expires(stage: Stage) -> None:
    promised(stage)
    stage.pass_time(10)
    await stage.quiet()

    assert len(stage.loop.reservations) == 0
    assert stage.sample("gpu_scheduler_reservations") == 0


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(ev.PodDeleted("team-web-x"), id="deleted"),
        pytest.param(ev.PodsReplaced(()), id="missing-from-a-list"),
    ],
)
async def test_reservation_ends_with_its_pod(stage: Stage, end: ev.Event) -> None:
    stage.see(promised(stage))
    await stage.recorder.next()
    assert len(stage.loop.reservations) == 1
    stage.see(end)
    await stage.quiet()

    assert len(stage.loop.reservations) == 0


# --- figures -------------------------------------------------------------------------


async def test_gauges_show_the_state_each_second(stage: Stage) -> None:
    stage.see(
        ev.NodeUpdated(node(gpus=1)),
        ev.NodeUpdated(node("n2")),
        ev.PodUpdated(pod("a", gpus=1, node="n1")),
        ev.PodUpdated(pod("b", gpus=1, node="n1", scheduler="default-scheduler")),
        ev.PodUpdated(pod("c", gpus=1)),
    )
    await stage.recorder.next()
    stage.pass_time(1)
    await stage.quiet()

    assert stage.sample("gpu_scheduler_cache_size", type="nodes") == 2
    assert stage.sample("gpu_scheduler_cache_size", type="pods") == 3
    assert stage.sample("gpu_scheduler_pending_pods", queue="unschedulable") == 1
    assert stage.sample("gpu_scheduler_over_committed_devices") == 1


async def test_stop_waits_for_bindings_in_flight(stage: Stage) -> None:
    assert await stage.loop.drain_bindings(0.01)
