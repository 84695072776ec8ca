"""A pod that waits for a claim or for devices is decided again when they change."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.actions import ReserveClaims
from scheduler.model.dra.claim import ResourceClaim
from scheduler.state import event as ev
from scheduler.state.queue.equivalence_group import key_of
from scheduler.state.queue.requeue_conditions import RequeueCondition
from tests.builders import node, pod
from tests.dra import (
    allocation_json,
    claiming,
    device_class,
    resource_claim,
    resource_slice,
    result_json,
    taint_rule,
)
from tests.unit.loop.loop_world import Stage, playing

USER = pod("a", spec=claiming("gpu"))
THEIRS = resource_claim("theirs", version="5", allocation=allocation_json(result_json()))
OTHER = pod("theirs", scheduler="other", spec=claiming("gpu"))
SLICE = resource_slice("n1", "gpu-0")


def changed(item: Any) -> ev.DraUpdated:
    return ev.DraUpdated(item)


@pytest.mark.parametrize(
    ("world", "change"),
    [
        pytest.param([SLICE, device_class()], changed(resource_claim()), id="claim"),
        pytest.param([SLICE, resource_claim()], changed(device_class()), id="class"),
        pytest.param([resource_claim(), device_class()], changed(SLICE), id="slice"),
        pytest.param(
            [SLICE, resource_claim(), device_class(), THEIRS],
            ev.DraDeleted(ResourceClaim, THEIRS.key),
            id="claim-of-another-pod",
        ),
        pytest.param(
            [SLICE, resource_claim(), device_class(), THEIRS],
            changed(resource_claim("theirs", version="6")),
            id="deallocated",
        ),
        pytest.param(
            [SLICE, resource_claim(), device_class(), taint_rule()],
            ev.DraDeleted(type(taint_rule()), "rule"),
            id="taint-rule",
        ),
        pytest.param(
            [SLICE, resource_claim(), device_class(), OTHER],
            ev.PodDeleted(OTHER.uid),
            id="pod-of-another-scheduler",
        ),
    ],
)
async def test_a_change_that_helps_ends_the_wait(world: list[Any], change: ev.Event) -> None:
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(node("n1")))
        for one in world:
            stage.see(ev.PodUpdated(one) if one is OTHER else changed(one))
        stage.see(ev.PodUpdated(USER))
        stage.sync()
        await stage.quiet()
        assert not [one for one in stage.sent.actions if isinstance(one, ReserveClaims)]

        stage.see(change)
        await stage.quiet()
        stage.pass_time(2)
        await stage.quiet()

        assert [one for one in stage.sent.actions if isinstance(one, ReserveClaims)]


def test_pods_with_claims_of_one_template_wait_together() -> None:
    def waiting(name: str, template: str) -> Any:
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-x"}]}
        return pod(name, spec=claiming(templates={"gpu": template}), status=status)

    def key(name: str, template: str) -> Any:
        return key_of(waiting(name, template), RequeueCondition(frozenset()))

    assert key("a", "one") == key("b", "one")
    assert key("a", "one") != key("a", "two")
