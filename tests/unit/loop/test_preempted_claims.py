"""From the decision to preempt until the claims of the victims are deallocated."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.framework.settings import Settings
from scheduler.model.actions import PreemptPods, ReleaseClaims, ReserveClaims
from scheduler.model.dra.objects import DraObject
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.dra import (
    allocation_json,
    claiming,
    device_class,
    device_json,
    resource_claim,
    resource_slice,
    result_json,
)
from tests.unit.loop.loop_world import Stage, playing

OWN = default_pipeline(Settings(maps_allow="all", preemption="own"))
LOW = pod("low", node="n1", phase="Running", spec=claiming("low"))
HIGH = pod("high", priority=9, spec=claiming("high"))
WEAK = pod("weak", priority=1, spec=claiming("weak"))
DELETED = ev.VictimOutcome.DELETED


def sent(stage: Stage, kind: type) -> list[Any]:
    return [one for one in stage.sent.actions if isinstance(one, kind)]


def of_low(**more: Any) -> ev.DraUpdated:
    """The claim of the victim; allocated to it, if nothing else is said."""
    given = {"allocation": allocation_json(result_json()), "users": ["low"], **more}
    return ev.DraUpdated(resource_claim("low", **given))


async def settled(stage: Stage) -> None:
    """Every backoff is over."""
    for _ in range(3):
        await stage.quiet()
        stage.pass_time(2)
    await stage.quiet()


def see_cluster(stage: Stage, *pods: Pod, low: ev.DraUpdated | None = None) -> None:
    claims = (resource_claim("high"), resource_claim("weak"))
    stage.see(ev.NodeUpdated(node("n1")), low or of_low(), *map(ev.PodUpdated, pods))
    objects: tuple[DraObject, ...] = (resource_slice("n1", "gpu-0"), device_class(), *claims)
    stage.see(*map(ev.DraUpdated, objects))
    stage.sync()


async def test_the_change_of_the_claim_wakes_the_preemptor() -> None:
    async with playing(Stage(OWN)) as stage:
        see_cluster(stage, LOW, HIGH, WEAK)
        await settled(stage)
        [preempted] = sent(stage, PreemptPods)
        assert (preempted.preemptor, preempted.victims) == (HIGH, (LOW,))
        stage.see(ev.PreemptionEnded(HIGH, "n1", (ev.VictimResult(LOW, DELETED, ""),)))
        stage.see(ev.PodDeleted(LOW.uid))
        await settled(stage)
        stage.see(ev.PodUpdated(msgspec.structs.replace(HIGH, labels={"a": "b"})))
        await settled(stage)
        texts = [text for name, _, text in stage.recorder.said if name == "high"]
        assert texts[-1].endswith("not eligible due to claims of ended pods on the nominated node.")
        assert stage.recorder.nominated["high"] == "n1"
        assert len(sent(stage, PreemptPods)) == 1

        stage.see(ev.DraUpdated(resource_claim("low", version="2")))
        await settled(stage)

        [reserve] = sent(stage, ReserveClaims)
        assert [one.key for one in reserve.claims] == ["team/high"]


def planned(stage: Stage) -> list[str]:
    """The devices that are held for the claims of preemptors."""
    plans = stage.loop.cluster.nominations.plans.values()
    return [one.id.device for plan in plans for given in plan.allocations for one in given.results]


async def test_a_preemptor_holds_its_device_while_its_victims_are_deleted() -> None:
    async with playing(Stage(OWN)) as stage:
        see_cluster(stage, LOW, HIGH)
        await settled(stage)

        for change in (
            ev.PodUpdated(msgspec.structs.replace(HIGH, labels={"a": "b"})),
            ev.PodUpdated(msgspec.structs.replace(LOW, is_deleting=True)),
            ev.PreemptionEnded(HIGH, "n1", (ev.VictimResult(LOW, DELETED, ""),)),
            ev.PodUpdated(msgspec.structs.replace(HIGH, labels={"a": "c"})),
        ):
            stage.see(change)
            await settled(stage)
            assert planned(stage) == ["gpu-0"]


async def test_a_preemptor_holds_no_device_that_another_pod_has() -> None:
    """Its counters would be taken twice from weaker pods."""
    foreign = pod("foreign", node="n1", scheduler="other", priority=9, spec=claiming("foreign"))
    given = allocation_json(result_json())
    async with playing(Stage(OWN)) as stage:
        see_cluster(stage, LOW, HIGH, WEAK)
        await settled(stage)
        assert planned(stage) == ["gpu-0"]
        stage.see(ev.PreemptionEnded(HIGH, "n1", (ev.VictimResult(LOW, DELETED, ""),)))
        stage.see(ev.PodDeleted(LOW.uid), ev.PodUpdated(foreign))
        stage.see(ev.DraUpdated(resource_claim("foreign", allocation=given, users=["foreign"])))
        stage.see(ev.PodUpdated(msgspec.structs.replace(HIGH, labels={"a": "b"})))
        await settled(stage)

        assert stage.recorder.nominated["high"] == "n1"
        assert planned(stage) == []


async def test_a_new_leader_holds_the_device_of_a_preemptor() -> None:
    """The victim has ended under the former leader, and its claim has not."""
    waits = msgspec.structs.replace(HIGH, nominated_node="n1")
    async with playing(Stage(OWN)) as stage:
        see_cluster(stage, waits, WEAK)
        await settled(stage)

        assert sent(stage, PreemptPods) == []
        assert stage.recorder.nominated["high"] == "n1"
        assert planned(stage) == ["gpu-0"]


async def test_a_placement_that_waits_for_its_device_is_taken_back() -> None:
    """Nothing is deleted: the pod keeps waiting, and its claim is deallocated."""
    low = pod("low", spec=claiming("low"))
    device = device_json("gpu-0", bindingConditions=["Ready"])
    given = allocation_json(result_json(bindingConditions=["Ready"]))
    async with playing(Stage(OWN)) as stage:
        see_cluster(stage, low, low=of_low(allocation=None))
        stage.see(ev.DraUpdated(resource_slice("n1", device)))
        await settled(stage)
        written = resource_claim("low", allocation=given, users=["low"], version="3")
        stage.see(ev.ClaimsReserved(low.uid, 1, (written,)))
        await settled(stage)
        assert stage.loop.cluster.assumed.keys() == {low.uid}

        stage.see(ev.PodUpdated(HIGH))
        await settled(stage)

        assert sent(stage, PreemptPods) == []
        [release] = sent(stage, ReleaseClaims)
        assert (release.uid, release.deallocate) == (low.uid, True)
        assert stage.loop.cluster.preemptions.running == {}
        assert len(sent(stage, ReserveClaims)) == 1, "the device is not free yet"
        freed = msgspec.structs.replace(written, allocation=None, reserved_for=(), version="5")
        stage.see(ev.ClaimsReleased(low.uid, (freed,)))
        await settled(stage)

        assert [one.uid for one in sent(stage, ReserveClaims)] == [low.uid, HIGH.uid]


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["free", "gone-to-another"])
async def test_a_weaker_pod_gets_the_device_when_the_preemptor_is_gone(is_elsewhere: bool) -> None:
    async with playing(Stage(OWN)) as stage:
        see_cluster(stage, LOW, HIGH, WEAK)
        await settled(stage)
        stage.see(ev.PreemptionEnded(HIGH, "n1", (ev.VictimResult(LOW, DELETED, ""),)))
        stage.see(ev.PodDeleted(LOW.uid), ev.PodDeleted(HIGH.uid))
        await settled(stage)
        assert sent(stage, ReserveClaims) == []

        given = allocation_json(result_json())
        taken = resource_claim("foreign", allocation=given, users=["foreign"])
        stage.see(ev.DraUpdated(resource_claim("low", version="2")))
        stage.see(*([ev.DraUpdated(taken)] if is_elsewhere else []))
        await settled(stage)

        expected = [] if is_elsewhere else [WEAK.uid]
        assert [one.uid for one in sent(stage, ReserveClaims)] == expected
