"""A placement that waits for ResourceClaims, from the decision to the Binding or its undoing."""

from __future__ import annotations

from typing import Any

from scheduler.model.actions import ClaimRef, ReleaseClaims, ReserveClaims
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

USER = pod("a", spec=claiming("gpu"))
REF = ClaimRef("team", "gpu", "uid-gpu")


def devices(*items: Any) -> list[ev.Event]:
    return [ev.DraUpdated(item) for item in items]


def see_cluster(stage: Stage, *claims: Any) -> None:
    """A node with a device, and a pod with a claim."""
    stage.see(ev.NodeUpdated(node("n1")))
    stage.see(*devices(resource_slice("n1", "gpu-0"), device_class()))
    stage.see(*devices(*(claims or (resource_claim(),))))
    stage.see(ev.PodUpdated(USER))
    stage.sync()


def reserved(**result: Any) -> list[ev.Event]:
    """What the API server answers, and what its watch shows."""
    allocation = allocation_json(result_json(**result))
    claim = resource_claim(allocation=allocation, users=["a"], version="3")
    return [ev.ClaimsReserved(USER.uid, 1, (claim,)), ev.DraUpdated(claim)]


def sent(stage: Stage, kind: type) -> list[Any]:
    return [one for one in stage.sent.actions if isinstance(one, kind)]


async def test_the_binding_waits_for_the_claim() -> None:
    """Which takes no time worth a condition."""
    async with playing(Stage()) as stage:
        see_cluster(stage)
        await stage.quiet()

        [action] = sent(stage, ReserveClaims)
        assert [one.key for one in action.claims] == ["team/gpu"]
        assert [str(one.id) for one in action.claims[0].allocation.results] == [
            "gpu.example.com/n1/gpu-0"
        ]
        assert stage.binder.sent == []
        assert stage.recorder.waiting == {}
        stage.see(*reserved())

        assert (await stage.binder.next()).node_name == "n1"


async def test_condition_names_what_a_device_waits_for() -> None:
    device = device_json("gpu-0", bindingConditions=["Ready"])
    async with playing(Stage()) as stage:
        see_cluster(stage)
        stage.see(*devices(resource_slice("n1", device)))
        await stage.quiet()

        stage.see(*reserved(bindingConditions=["Ready"]))
        await stage.quiet()

        assert stage.recorder.waiting["a"] == (
            "waits for condition Ready of device gpu.example.com/n1/gpu-0 on node n1"
        )
        assert stage.recorder.nominated["a"] == "n1"
        assert stage.binder.sent == []


async def test_refused_binding_releases_the_claim() -> None:
    """Case 60."""
    async with playing(Stage()) as stage:
        see_cluster(stage)
        await stage.quiet()
        stage.see(*reserved())
        placement = await stage.binder.next()

        stage.binder.end(placement, ev.BindOutcome.REFUSED, "no")
        await stage.quiet()

        assert sent(stage, ReleaseClaims) == [ReleaseClaims(USER.uid, (REF,))]


async def test_allocation_that_no_node_can_use_is_given_up() -> None:
    elsewhere = allocation_json(result_json(node="n9"), node="n9")
    async with playing(Stage()) as stage:
        see_cluster(stage, resource_claim(allocation=elsewhere))
        await stage.quiet()
        assert sent(stage, ReleaseClaims) == [ReleaseClaims(USER.uid, (REF,), deallocate=True)]

        stage.see(ev.ClaimsReleased(USER.uid, (resource_claim(version="9"),)))
        await stage.quiet()
        stage.pass_time(2)
        await stage.quiet()

        assert len(sent(stage, ReserveClaims)) == 1


async def test_allocation_that_another_pod_uses_is_kept() -> None:
    elsewhere = allocation_json(result_json(node="n9"), node="n9")
    async with playing(Stage()) as stage:
        see_cluster(stage, resource_claim(allocation=elsewhere, users=["a", "other"]))
        await stage.quiet()

        assert sent(stage, ReleaseClaims) == []
