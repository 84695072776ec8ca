"""The breaker: a node that rejects pods again and again rests, for as few pods as possible."""

from __future__ import annotations

import pytest

from scheduler.state.breakers.circuit import REFUSALS_MAX
from scheduler.state.breakers.kubelet_rejection import WHOLE_NODE
from scheduler.state.breakers.node_circuit_breaker import NodeCircuitBreaker, TripEvent
from scheduler.state.breakers.recent_bindings import SILENCE_MAX_S, VERDICT_MAX_S
from scheduler.state.event import PastRejection
from tests.builders import GPU, MIG_2G, pod
from tests.unit.state.bouncing import (
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


def test_the_third_rejection_within_ten_minutes_opens_it() -> None:
    breaker = NodeCircuitBreaker()
    assert [bounce(breaker, now=NOW + at) for at in (0, 290)] == [None, None]
    assert breaker.avoided("n1", NOW + 290) == frozenset()

    trip = bounce(breaker, now=NOW + 580)

    assert trip == TripEvent("n1", f"pods with {GPU}", TIMINGS.pause_first_s, frozenset((GPU,)))
    assert (breaker.avoided("n1", NOW + 580), len(breaker)) == (frozenset((GPU,)), 1)


def test_rejections_far_apart_open_nothing() -> None:
    breaker = NodeCircuitBreaker()
    for at in range(10):
        assert bounce(breaker, now=NOW + at * (TIMINGS.window_s / 2 + 1)) is None


SCOPES = [
    pytest.param(OUT_OF_GPU, "", {GPU}, id="one-resource"),
    pytest.param("OutOfcpu", "", {"cpu"}, id="cpu"),
    pytest.param("OutOfpods", "", {WHOLE_NODE}, id="no-place-for-anybody"),
    pytest.param("NodeShutdown", "", {WHOLE_NODE}, id="the-node-goes"),
    pytest.param("TopologyAffinityError", "cannot align", {ONE.kind_id}, id="pods-like-it"),
    pytest.param("NodeAffinity", "", {ONE.kind_id}, id="the-kubelet-sees-other-labels"),
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
    pytest.param(UNEXPECTED, "not enough cpus available", {ONE.kind_id}, id="no-device-at-all"),
    pytest.param(
        UNEXPECTED,
        "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu.shared",
        {ONE.kind_id},
        id="a-longer-name-is-another-resource",
    ),
]


@pytest.mark.parametrize(("reason", "message", "scopes"), SCOPES)
def test_as_few_pods_as_possible_avoid_the_node(
    reason: str, message: str, scopes: set[str]
) -> None:
    assert tripped(reason, message).avoided("n1", NOW) == scopes


def test_a_plugin_that_names_no_resource_is_not_guessed_at_where_there_are_two() -> None:
    both = pod("a", gpus=1, requests={"rdma/hca": 1})
    breaker = tripped(UNEXPECTED, "rpc error: code = Unavailable desc = EOF", both)

    assert breaker.avoided("n1", NOW) == {both.kind_id}


OWN_FAULT = [
    pytest.param("SysctlForbidden", id="forbidden-sysctl"),
    pytest.param("AppArmor", id="apparmor"),
    pytest.param("PodOSNotSupported", id="operating-system"),
    pytest.param("Evicted", id="evicted"),
    pytest.param("", id="a-container-failed"),
    pytest.param("OutOfexample.com/toy", id="something-it-never-asked-for"),
]


@pytest.mark.parametrize("reason", OWN_FAULT)
def test_what_a_pod_brings_upon_itself_counts_for_nothing(reason: str) -> None:
    """Or anybody could close nodes for others."""
    breaker = NodeCircuitBreaker()
    for _ in range(10):
        assert bounce(breaker, reason) is None
    assert breaker.avoided("n1", NOW) == frozenset()


# --- how often -------------------------------------------------------------------------------


def test_it_is_tried_again_after_its_pause() -> None:
    breaker = tripped()

    assert breaker.tick(NOW + TIMINGS.pause_first_s - 0.1) == []
    assert breaker.tick(NOW + TIMINGS.pause_first_s) == ["n1"]
    assert (breaker.avoided("n1", NOW + 30), len(breaker)) == (frozenset(), 0)


def test_then_one_pod_tries_and_the_others_wait_for_its_end() -> None:
    breaker = tripped()
    later = NOW + 2 * TIMINGS.window_s
    breaker.tick(later)
    assert not closed_to(breaker, ONE, later)

    breaker.record_binding(ONE, "n1", later)
    assert closed_to(breaker, pod("b", gpus=1), later)
    breaker.record_admission(ONE.uid, later)
    assert not closed_to(breaker, pod("b", gpus=1), later)


def test_a_fourth_rejection_closes_it_until_the_first_is_ten_minutes_ago() -> None:
    breaker = tripped()
    breaker.tick(NOW + 31)

    trip = bounce(breaker, now=NOW + 31)

    assert trip is not None
    assert trip.pause_s == TIMINGS.window_s - 31
    breaker.tick(NOW + TIMINGS.window_s - 1)
    assert closed_to(breaker, ONE, NOW + TIMINGS.window_s - 1)
    breaker.tick(NOW + TIMINGS.window_s)
    assert not closed_to(breaker, ONE, NOW + TIMINGS.window_s)


def test_one_more_rejection_opens_it_again_for_twice_as_long_up_to_half_an_hour() -> None:
    breaker, now, pauses = tripped(), NOW, []
    for _ in range(8):
        now += 2 * TIMINGS.pause_max_s
        breaker.tick(now)
        trip = bounce(breaker, now=now)
        assert trip is not None
        pauses.append(trip.pause_s)

    assert pauses == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_no_more_pods_are_under_way_than_may_still_be_rejected() -> None:
    breaker = NodeCircuitBreaker()
    bounce(breaker)
    for number in range(REFUSALS_MAX - 1):
        assert not closed_to(breaker, ONE)
        breaker.record_binding(pod(f"p{number}", gpus=1), "n1", NOW)

    assert closed_to(breaker, ONE)
    breaker.record_admission("team-p0", NOW)
    assert not closed_to(breaker, ONE)


def test_rejections_that_were_under_way_count_too() -> None:
    """Eight that were bound before the first was rejected."""
    breaker = tripped()
    assert [bounce(breaker, now=NOW + 1) for _ in range(5)] == [None] * 5
    breaker.tick(NOW + TIMINGS.pause_first_s)
    assert closed_to(breaker, ONE, NOW + TIMINGS.pause_first_s)

    breaker.tick(NOW + 1 + TIMINGS.window_s)
    assert not closed_to(breaker, ONE, NOW + 1 + TIMINGS.window_s)


def test_a_good_gpu_beside_a_bad_one_does_not_make_it_forgotten() -> None:
    breaker = NodeCircuitBreaker()
    for at in range(3):
        run(breaker, pod(f"good{at}", gpus=1, requests={"cpu": "1"}), NOW + at)
        trip = bounce(breaker, now=NOW + at)

    assert trip is not None
    assert closed_to(breaker, ONE, NOW + 3)


def test_a_pod_that_is_admitted_shortens_the_next_pause_once_nothing_is_counted() -> None:
    breaker = tripped()
    later = NOW + TIMINGS.window_s
    breaker.tick(later)
    run(breaker, ONE, later)

    assert [bounce(breaker, now=later + 1) for _ in range(2)] == [None, None]
    trip = bounce(breaker, now=later + 1)
    assert trip is not None
    assert trip.pause_s == TIMINGS.pause_first_s


def test_a_pod_that_is_admitted_without_the_resource_proves_nothing_about_it() -> None:
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


def test_each_resource_of_a_node_has_a_circuit_of_its_own() -> None:
    breaker = tripped()
    mig = pod("m", mig={"2g.20gb": 1})
    assert bounce(breaker, f"OutOf{MIG_2G}", one=mig) is None
    for _ in range(2):
        bounce(breaker, f"OutOf{MIG_2G}", one=mig)

    assert breaker.avoided("n1", NOW) == {GPU, MIG_2G}


# --- who is heard ------------------------------------------------------------------------------


def test_a_pod_that_nobody_sent_was_rejected_by_nobody() -> None:
    assert NodeCircuitBreaker().record_rejection("nobody", OUT_OF_GPU, "", NOW) is None


def test_a_pod_that_vanished_holds_its_place_until_it_is_clear_why() -> None:
    breaker = NodeCircuitBreaker()
    for _ in range(3):
        bounce(breaker)
    breaker.tick(NOW + 2 * TIMINGS.window_s)
    later = NOW + 2 * TIMINGS.window_s
    breaker.record_binding(ONE, "n1", later)
    assert breaker.under_way.mark_deleted(ONE.uid, later)
    assert not breaker.under_way.mark_deleted(ONE.uid, later), "it is looked up once"
    assert closed_to(breaker, ONE, later)

    breaker.tick(later + VERDICT_MAX_S)
    assert not closed_to(breaker, ONE, later + VERDICT_MAX_S)


def test_an_event_counts_for_pods_of_that_kind_only() -> None:
    """Whoever may write events could close nodes for others."""
    breaker = NodeCircuitBreaker()
    for _ in range(4):
        breaker.record_binding(ONE, "n1", NOW)
        breaker.record_rejection(ONE.uid, OUT_OF_GPU, "", NOW, is_hearsay=True)

    assert breaker.avoided("n1", NOW) == {ONE.kind_id}


def test_what_is_sure_and_what_is_hearsay_add_up() -> None:
    breaker = NodeCircuitBreaker()
    for is_hearsay in (False, True, False):
        breaker.record_binding(ONE, "n1", NOW)
        breaker.record_rejection(ONE.uid, OUT_OF_GPU, "", NOW, is_hearsay=is_hearsay)

    assert breaker.avoided("n1", NOW) == {ONE.kind_id}


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
def test_what_was_before_is_gone_through_in_its_order(
    ages: tuple[float, ...], later: float, is_closed: bool
) -> None:
    breaker = NodeCircuitBreaker()
    breaker.restore(past(*ages), NOW)
    breaker.tick(NOW + later)

    assert closed_to(breaker, ONE, NOW + later) == is_closed


def test_a_node_that_was_deleted_begins_afresh() -> None:
    breaker = tripped()
    breaker.forget_node("n1")

    assert breaker.avoided("n1", NOW) == frozenset()
    assert bounce(breaker) is None


def test_nothing_is_remembered_for_ever() -> None:
    breaker = NodeCircuitBreaker()
    for number in range(50):
        one = pod(f"p{number}", gpus=1)
        breaker.record_binding(one, f"n{number}", NOW)
        breaker.record_binding(pod(f"q{number}"), f"n{number}", NOW)
        breaker.record_rejection(one.uid, OUT_OF_GPU, "", NOW)
    for _ in range(3):
        bounce(breaker)
    breaker.tick(NOW + TIMINGS.window_s)
    breaker.tick(NOW + max(SILENCE_MAX_S, TIMINGS.window_s + TIMINGS.calm_s))

    assert (len(breaker.under_way), breaker.suspects()) == (0, [])
