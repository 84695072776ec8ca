"""The breaker: a node that rejects pods again and again rests, for as few pods as possible."""

from __future__ import annotations

import pytest

from scheduler.state.breakers.circuit import REJECTIONS_MAX
from scheduler.state.breakers.kubelet_rejection import WHOLE_NODE
from scheduler.state.breakers.node_circuit_breaker import (
    ADMISSION_WAIT_MAX_S,
    DELETION_WAIT_MAX_S,
    NodeCircuitBreaker,
    TripEvent,
)
from scheduler.state.event import PastRejection
from tests.builders import GPU, MIG_2G, pod
from tests.unit.state.breakers.rejecting_node import (
    NOW,
    ONE,
    OUT_OF_GPU,
    TIMINGS,
    UNEXPECTED,
    bounce,
    closed_to,
    run,
    tripped,
)


def test_third_rejection_in_ten_minutes_opens_the_circuit() -> None:
    breaker = NodeCircuitBreaker()
    assert [bounce(breaker, now=NOW + at) for at in (0, 290)] == [None, None]
    assert breaker.avoided("n1", NOW + 290) == frozenset()

    trip = bounce(breaker, now=NOW + 580)

    assert trip == TripEvent("n1", f"pods with {GPU}", TIMINGS.pause_first_s, frozenset((GPU,)))
    assert (breaker.avoided("n1", NOW + 580), len(breaker)) == (frozenset((GPU,)), 1)


def test_distant_rejections_open_no_circuit() -> None:
    breaker = NodeCircuitBreaker()
    for at in range(10):
        assert bounce(breaker, now=NOW + at * (TIMINGS.window_s / 2 + 1)) is None


SCOPES = [
    pytest.param(OUT_OF_GPU, "", {GPU}, id="one-resource"),
    pytest.param("OutOfcpu", "", {"cpu"}, id="cpu"),
    pytest.param("OutOfpods", "", {WHOLE_NODE}, id="node-is-full"),
    pytest.param("NodeShutdown", "", {WHOLE_NODE}, id="the-node-goes"),
    pytest.param("TopologyAffinityError", "cannot align", {ONE.class_id}, id="pods-like-it"),
    pytest.param("NodeAffinity", "", {ONE.class_id}, id="the-kubelet-sees-other-labels"),
    pytest.param(
        UNEXPECTED,
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu."
        " Requested: 1, Available: 0, which is unexpected",
        {GPU},
        id="the-device-manager-names-it",
    ),
    pytest.param(
        UNEXPECTED,
        "Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc"
        " error: code = Unknown desc = Unable to retrieve list of available devices: error creating"
        " nvml.Device 5: nvml: GPU is lost, which is unexpected",
        {GPU},
        id="a-lost-gpu-it-is-the-only-device-of-the-pod",
    ),
    pytest.param(
        UNEXPECTED,
        'invalid allocation request for "nvidia.com/gpu": unknown device: GPU-1::0',
        {GPU},
        id="the-plugin-does-not-know-what-the-kubelet-picked",
    ),
    pytest.param(UNEXPECTED, "not enough cpus available", {ONE.class_id}, id="no-device-at-all"),
    pytest.param(
        UNEXPECTED,
        "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu.shared",
        {ONE.class_id},
        id="a-longer-name-is-another-resource",
    ),
]


@pytest.mark.parametrize(("reason", "message", "scopes"), SCOPES)
def test_as_few_pods_as_possible_avoid_the_node(
    reason: str, message: str, scopes: set[str]
) -> None:
    assert tripped(reason, message).avoided("n1", NOW) == scopes


def test_unnamed_resource_is_not_guessed_where_two_are_possible() -> None:
    both = pod("a", gpus=1, requests={"rdma/hca": 1})
    breaker = tripped(UNEXPECTED, "rpc error: code = Unavailable desc = EOF", both)

    assert breaker.avoided("n1", NOW) == {both.class_id}


OWN_FAULT = [
    pytest.param("SysctlForbidden", id="forbidden-sysctl"),
    pytest.param("AppArmor", id="apparmor"),
    pytest.param("PodOSNotSupported", id="operating-system"),
    pytest.param("Evicted", id="evicted"),
    pytest.param("", id="a-container-failed"),
    pytest.param("OutOfexample.com/toy", id="something-it-never-asked-for"),
]


@pytest.mark.parametrize("reason", OWN_FAULT)
def test_rejections_caused_by_the_pod_do_not_count(reason: str) -> None:
    """Otherwise any user could close nodes for others."""
    breaker = NodeCircuitBreaker()
    for _ in range(10):
        assert bounce(breaker, reason) is None
    assert breaker.avoided("n1", NOW) == frozenset()


# --- how often -------------------------------------------------------------------------------


def test_node_is_retried_after_its_pause() -> None:
    breaker = tripped()

    assert breaker.tick(NOW + TIMINGS.pause_first_s - 0.1) == []
    assert breaker.tick(NOW + TIMINGS.pause_first_s) == ["n1"]
    assert (breaker.avoided("n1", NOW + 30), len(breaker)) == (frozenset(), 0)


def test_one_probe_pod_tries_while_others_wait() -> None:
    breaker = tripped()
    later = NOW + 2 * TIMINGS.window_s
    breaker.tick(later)
    assert not closed_to(breaker, ONE, later)

    breaker.record_binding(ONE, "n1", later)
    assert closed_to(breaker, pod("b", gpus=1), later)
    breaker.record_admission(ONE.uid, later)
    assert not closed_to(breaker, pod("b", gpus=1), later)


def test_fourth_rejection_closes_the_node_for_the_window() -> None:
    breaker = tripped()
    breaker.tick(NOW + 31)

    trip = bounce(breaker, now=NOW + 31)

    assert trip is not None
    assert trip.pause_s == TIMINGS.window_s - 31
    breaker.tick(NOW + TIMINGS.window_s - 1)
    assert closed_to(breaker, ONE, NOW + TIMINGS.window_s - 1)
    breaker.tick(NOW + TIMINGS.window_s)
    assert not closed_to(breaker, ONE, NOW + TIMINGS.window_s)


def test_further_rejection_doubles_the_pause_up_to_half_an_hour() -> None:
    breaker, now, pauses = tripped(), NOW, []
    for _ in range(8):
        now += 2 * TIMINGS.pause_max_s
        breaker.tick(now)
        trip = bounce(breaker, now=now)
        assert trip is not None
        pauses.append(trip.pause_s)

    assert pauses == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_pods_in_flight_are_limited_by_allowed_rejections() -> None:
    breaker = NodeCircuitBreaker()
    bounce(breaker)
    for number in range(REJECTIONS_MAX - 1):
        assert not closed_to(breaker, ONE)
        breaker.record_binding(pod(f"p{number}", gpus=1, requests={"cpu": "1"}), "n1", NOW)

    assert closed_to(breaker, ONE)
    breaker.record_admission("team-p0", NOW)
    assert not closed_to(breaker, ONE)


def test_rejections_in_flight_count() -> None:
    """Eight that were bound before the first was rejected."""
    breaker = tripped()
    assert [bounce(breaker, now=NOW + 1) for _ in range(5)] == [None] * 5
    breaker.tick(NOW + TIMINGS.pause_first_s)
    assert closed_to(breaker, ONE, NOW + TIMINGS.pause_first_s)

    breaker.tick(NOW + 1 + TIMINGS.window_s)
    assert not closed_to(breaker, ONE, NOW + 1 + TIMINGS.window_s)


def test_admissions_on_a_good_gpu_keep_the_count() -> None:
    breaker = NodeCircuitBreaker()
    for at in range(3):
        run(breaker, pod(f"good{at}", gpus=1, requests={"cpu": "1"}), NOW + at)
        trip = bounce(breaker, now=NOW + at)

    assert trip is not None
    assert closed_to(breaker, ONE, NOW + 3)


def test_admitted_pod_shortens_the_next_pause_when_none_is_counted() -> None:
    breaker = tripped()
    later = NOW + TIMINGS.window_s
    breaker.tick(later)
    run(breaker, ONE, later)

    assert [bounce(breaker, now=later + 1) for _ in range(2)] == [None, None]
    trip = bounce(breaker, now=later + 1)
    assert trip is not None
    assert trip.pause_s == TIMINGS.pause_first_s


def test_admitted_pod_without_the_resource_proves_nothing() -> None:
    breaker = tripped()
    breaker.tick(NOW + 31)
    run(breaker, pod("cpu-only", requests={"cpu": "1"}), NOW + 31)

    assert bounce(breaker, now=NOW + 32) is not None


def test_a_pod_that_is_admitted_during_the_pause_does_not_end_it() -> None:
    """It was bound before; the pause is short, and ends by itself."""
    breaker = NodeCircuitBreaker()
    breaker.record_binding(pod("early", gpus=1, requests={"cpu": "1"}), "n1", NOW)
    for _ in range(3):
        bounce(breaker)
    breaker.record_admission("team-early", NOW)

    assert breaker.avoided("n1", NOW) == {GPU}


def test_each_resource_has_its_own_circuit() -> None:
    breaker = tripped()
    mig = pod("m", mig={"2g.20gb": 1})
    assert bounce(breaker, f"OutOf{MIG_2G}", one=mig) is None
    for _ in range(2):
        bounce(breaker, f"OutOf{MIG_2G}", one=mig)

    assert breaker.avoided("n1", NOW) == {GPU, MIG_2G}


# --- which rejections count ---------------------------------------------------------------------


def test_rejection_of_an_unknown_pod_is_not_counted() -> None:
    assert NodeCircuitBreaker().record_rejection("absent", OUT_OF_GPU, "", NOW) is None


def test_vanished_pod_counts_in_flight_until_explained() -> None:
    breaker = NodeCircuitBreaker()
    for _ in range(3):
        bounce(breaker)
    breaker.tick(NOW + 2 * TIMINGS.window_s)
    later = NOW + 2 * TIMINGS.window_s
    breaker.record_binding(ONE, "n1", later)
    assert breaker.in_flight.mark_deleted(ONE.uid, later)
    assert not breaker.in_flight.mark_deleted(ONE.uid, later), "it is looked up once"
    assert closed_to(breaker, ONE, later)

    breaker.tick(later + DELETION_WAIT_MAX_S)
    assert not closed_to(breaker, ONE, later + DELETION_WAIT_MAX_S)


def test_an_event_counts_for_pods_of_that_kind_only() -> None:
    """Otherwise a writer of events could close nodes for others."""
    breaker = NodeCircuitBreaker()
    for _ in range(4):
        breaker.record_binding(ONE, "n1", NOW)
        breaker.record_rejection(ONE.uid, OUT_OF_GPU, "", NOW, is_unconfirmed=True)

    assert breaker.avoided("n1", NOW) == {ONE.class_id}


def test_own_and_reported_rejections_add_up() -> None:
    breaker = NodeCircuitBreaker()
    for is_unconfirmed in (False, True, False):
        breaker.record_binding(ONE, "n1", NOW)
        breaker.record_rejection(ONE.uid, OUT_OF_GPU, "", NOW, is_unconfirmed=is_unconfirmed)

    assert breaker.avoided("n1", NOW) == {ONE.class_id}


def past(*ages: float) -> list[PastRejection]:
    return [PastRejection(ONE, "n1", OUT_OF_GPU, "", age) for age in ages]


RECALLED = [
    pytest.param((500, 10, 400), 19, True, id="three-a-moment-ago"),
    pytest.param((500, 440, 400), 0, False, id="the-pause-is-over"),
    pytest.param((500, 440, 400, 350), 0, True, id="four-in-ten-minutes"),
    pytest.param((500, 440, 400, 350), 101, False, id="until-the-first-is-ten-minutes-ago"),
    pytest.param((3000, 2000, 1000), 0, False, id="long-ago"),
]


@pytest.mark.parametrize(("ages", "later", "is_closed"), RECALLED)
def test_past_rejections_are_replayed_in_order(
    ages: tuple[float, ...], later: float, is_closed: bool
) -> None:
    breaker = NodeCircuitBreaker()
    breaker.restore(past(*ages), NOW)
    breaker.tick(NOW + later)

    assert closed_to(breaker, ONE, NOW + later) == is_closed


def test_deleted_node_starts_with_a_closed_circuit() -> None:
    breaker = tripped()
    breaker.forget_node("n1")

    assert breaker.avoided("n1", NOW) == frozenset()
    assert bounce(breaker) is None


def test_breaker_state_expires() -> None:
    breaker = NodeCircuitBreaker()
    for number in range(50):
        one = pod(f"p{number}", gpus=1)
        breaker.record_binding(one, f"n{number}", NOW)
        breaker.record_binding(pod(f"q{number}"), f"n{number}", NOW)
        breaker.record_rejection(one.uid, OUT_OF_GPU, "", NOW)
    for _ in range(3):
        bounce(breaker)
    breaker.tick(NOW + TIMINGS.window_s)
    breaker.tick(NOW + max(ADMISSION_WAIT_MAX_S, TIMINGS.window_s + TIMINGS.calm_s))

    assert (len(breaker.in_flight), breaker.suspects()) == (0, [])
