"""A bad node or a bad request: for which pods rejections close a node."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from scheduler.model.pods.pod import Pod
from scheduler.state.breakers.circuit import REJECTIONS_MAX
from scheduler.state.breakers.node_circuit_breaker import NodeCircuitBreaker
from tests.builders import GPU, container, pod
from tests.unit.state.breakers.rejecting_node import (
    NOW,
    ONE_IS_THE_MOST,
    OUT_OF_GPU,
    TIMINGS,
    UNEXPECTED,
    bounce,
    closed_to,
    run,
    tripped,
)

PAIR = pod("pair", gpus=2, owner="Deployment/pair")
SINGLE = pod("single", gpus=1)


def test_size_rejection_is_avoided_by_size_at_once() -> None:
    breaker = NodeCircuitBreaker()

    trip = bounce(breaker, UNEXPECTED, message=ONE_IS_THE_MOST, one=PAIR)

    assert trip is not None
    assert trip.what == f"pods with more than 1 {GPU} in one container"
    assert closed_to(breaker, PAIR)
    assert not closed_to(breaker, SINGLE)


def test_size_rejection_of_older_plugins_is_recognised() -> None:
    message = (
        "Allocate failed due to rpc error: code = Unknown desc = request for 'nvidia.com/gpu: 2'"
        " too large: maximum request size for shared resources is 1, which is unexpected"
    )
    breaker = NodeCircuitBreaker()
    bounce(breaker, UNEXPECTED, message=message, one=PAIR)

    assert (closed_to(breaker, PAIR), closed_to(breaker, SINGLE)) == (True, False)


def test_a_container_counts_by_itself_where_a_plugin_refuses_by_size() -> None:
    breaker = NodeCircuitBreaker()
    bounce(breaker, UNEXPECTED, message=ONE_IS_THE_MOST, one=PAIR)
    two = [container("one", gpus=1), container("two", gpus=1)]

    assert not closed_to(breaker, pod("two", containers=two))


def test_deployment_rejected_by_size_fails_four_pods_in_ten_minutes() -> None:
    breaker, refused = NodeCircuitBreaker(), 0
    for second in range(int(TIMINGS.window_s)):
        breaker.tick(NOW + second)
        if not closed_to(breaker, PAIR, NOW + second):
            bounce(breaker, UNEXPECTED, NOW + second, ONE_IS_THE_MOST, PAIR)
            refused += 1
        assert not closed_to(breaker, SINGLE, NOW + second)

    assert refused == REJECTIONS_MAX


def test_large_request_rejections_leave_the_node_to_smaller_ones() -> None:
    breaker = tripped(UNEXPECTED, f"Allocate failed due to something about {GPU}", PAIR)
    assert breaker.avoided("n1", NOW) == {f"{GPU}>=2"}

    breaker.record_binding(SINGLE, "n1", NOW)
    assert closed_to(breaker, pod("next", gpus=1))
    breaker.record_admission(SINGLE.uid, NOW)
    assert not closed_to(breaker, pod("next", gpus=1))


def test_smaller_rejected_request_blames_the_node() -> None:
    breaker = tripped(UNEXPECTED, f"Allocate failed due to something about {GPU}", PAIR)
    bounce(breaker, one=SINGLE, now=NOW + 1)

    assert breaker.avoided("n1", NOW + 1) == {GPU}


def others(*, admitted: Iterable[Pod], refused: Iterable[Pod]) -> NodeCircuitBreaker:
    """Pods that were admitted after the first refusal, and three refusals."""
    breaker = NodeCircuitBreaker()
    for number, one in enumerate(refused):
        bounce(breaker, one=one)
        if not number:
            for other in admitted:
                run(breaker, other)
    return breaker


MINE = pod("mine", gpus=1, requests={"cpu": "7"}, owner="Deployment/mine")
ITS_NEXT = pod("next", gpus=1, requests={"cpu": "8"}, owner="Deployment/mine@r2")
YOURS = pod("yours", gpus=1, requests={"cpu": "2"}, owner="Deployment/yours")
ALSO_YOURS = pod("also", gpus=1, requests={"cpu": "3"}, owner="Deployment/also")
PARTIES = [
    pytest.param([YOURS], [MINE] * 3, {MINE.class_id}, id="others-are-admitted"),
    pytest.param(
        [YOURS], [MINE, ITS_NEXT, MINE], {MINE.class_id, ITS_NEXT.class_id}, id="a-rollout"
    ),
    pytest.param([], [MINE] * 3, {GPU}, id="no-other-pod"),
    pytest.param([YOURS], [MINE, ALSO_YOURS, MINE], {GPU}, id="two-workloads-are-refused"),
    pytest.param([YOURS, MINE], [MINE] * 3, {GPU}, id="its-own-are-admitted-too"),
    pytest.param([ITS_NEXT], [MINE] * 3, {GPU}, id="only-its-own-are-admitted"),
]


@pytest.mark.parametrize(("admitted", "refused", "scopes"), PARTIES)
def test_rejections_of_one_workload_only_are_blamed_on_its_kind(
    admitted: list[Pod], refused: list[Pod], scopes: set[str]
) -> None:
    assert others(admitted=admitted, refused=refused).avoided("n1", NOW) == scopes


def test_one_rejection_remains_where_a_kind_is_blamed() -> None:
    """So the bound holds for the resource, should it be the node after all."""
    breaker = others(admitted=[YOURS], refused=[MINE] * 3)
    breaker.tick(NOW + TIMINGS.window_s - 1)
    assert closed_to(breaker, MINE, NOW + TIMINGS.window_s - 1)
    assert not closed_to(breaker, YOURS, NOW + TIMINGS.window_s - 1)

    bounce(breaker, one=YOURS, now=NOW + TIMINGS.window_s - 1)

    assert closed_to(breaker, YOURS, NOW + TIMINGS.window_s - 1)


# --- one rejection is left for other pods ----------------------------------------------------

QUAD = pod("quad", gpus=4, owner="Deployment/quad")


def try_together(breaker: NodeCircuitBreaker, *pods: Pod, now: float = NOW) -> list[Pod]:
    """Bind each pod that may still go to n1, then reject all of them; returns the rejected."""
    bound = []
    for number, template in enumerate(pods):
        if not closed_to(breaker, template, now):
            one = msgspec.structs.replace(template, uid=f"{template.uid}-{now}-{number}")
            breaker.record_binding(one, "n1", now)
            bound.append(one)
    for one in bound:
        breaker.record_rejection(one.uid, OUT_OF_GPU, "", now)
    return bound


def test_pods_in_flight_leave_a_rejection_for_smaller_requests() -> None:
    """Two, two, two and one: four GPUs would have been a fifth rejection."""
    breaker = NodeCircuitBreaker()
    bounce(breaker, one=PAIR)
    bounce(breaker, one=PAIR)
    run(breaker, SINGLE)

    sizes = [one.requests[GPU] for one in try_together(breaker, PAIR, QUAD)]
    sizes += [one.requests[GPU] for one in try_together(breaker, SINGLE, SINGLE)]

    assert sizes == [2, 1]
    assert breaker.avoided("n1", NOW) == {GPU}


def test_blamed_kind_waits_although_the_admission_came_after_the_trip() -> None:
    breaker = NodeCircuitBreaker()
    bounce(breaker, one=MINE)
    breaker.record_binding(YOURS, "n1", NOW)
    bounce(breaker, one=MINE)
    bounce(breaker, one=MINE)
    breaker.record_admission(YOURS.uid, NOW)
    later = NOW + TIMINGS.pause_first_s
    breaker.tick(later)

    assert try_together(breaker, MINE, now=later) == []
    assert len(try_together(breaker, YOURS, YOURS, now=later)) == 1
    assert breaker.avoided("n1", later) == {GPU}


def test_fifth_rejection_is_the_last_one() -> None:
    """A workload changes its requests with each pod; the node still admits another workload."""
    breaker = others(admitted=[YOURS], refused=[MINE] * 3)
    changed = [
        pod(f"mine{cpu}", gpus=1, requests={"cpu": str(cpu)}, owner="Deployment/mine")
        for cpu in range(10, 15)
    ]

    rejected = [one for each in changed for one in try_together(breaker, each)]

    assert len(rejected) == REJECTIONS_MAX - 3 + 1
    assert closed_to(breaker, YOURS)
    later = NOW + TIMINGS.window_s
    breaker.tick(later)
    assert not closed_to(breaker, YOURS, later)


def test_rejections_in_flight_leave_the_fifth_to_smaller_requests() -> None:
    """Eight pairs were bound before the first was rejected, and a single GPU is admitted."""
    breaker = NodeCircuitBreaker()
    bounce(breaker, one=PAIR)
    run(breaker, SINGLE)
    for _ in range(7):
        bounce(breaker, one=PAIR)

    assert (closed_to(breaker, PAIR), closed_to(breaker, SINGLE)) == (True, False)
