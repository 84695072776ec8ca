"""The breaker: a node that rejects pods again and again rests, for as few pods as possible."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model.pod import Pod
from scheduler.state.breaker import (
    CALM_S,
    FRESH_S,
    PAUSE_FIRST_S,
    PAUSE_MAX_S,
    WHOLE_NODE,
    WINDOW_S,
    Breaker,
    Trip,
)
from tests.builders import GPU, MIG_2G, pod

NOW = 1000.0
ONE = pod("a", gpus=1, requests={"cpu": "1"})
OUT_OF_GPU = "OutOfnvidia.com/gpu"


def bounce(
    breaker: Breaker, reason: str = OUT_OF_GPU, now: float = NOW, message: str = "", one: Pod = ONE
) -> Trip | None:
    """One pod is bound to n1 and refused there."""
    breaker.bound(one, "n1", now)
    return breaker.rejected(one.uid, reason, message, now)


def tripped(reason: str = OUT_OF_GPU, message: str = "", one: Pod = ONE) -> Breaker:
    breaker = Breaker()
    for _ in range(2):
        assert bounce(breaker, reason, message=message, one=one) is None
    assert bounce(breaker, reason, message=message, one=one) is not None
    return breaker


def test_the_third_rejection_within_a_minute_opens_it() -> None:
    breaker = Breaker()
    assert [bounce(breaker, now=NOW + at) for at in (0, 30)] == [None, None]
    assert breaker.avoided("n1") == frozenset()

    assert bounce(breaker, now=NOW + 60) == Trip("n1", f"pods with {GPU}", PAUSE_FIRST_S)
    assert (breaker.avoided("n1"), len(breaker)) == (frozenset((GPU,)), 1)


def test_rejections_far_apart_open_nothing() -> None:
    breaker = Breaker()
    for at in range(10):
        assert bounce(breaker, now=NOW + at * (WINDOW_S / 2 + 1)) is None


SCOPES = [
    pytest.param(OUT_OF_GPU, "", {GPU}, id="one-resource"),
    pytest.param("OutOfcpu", "", {"cpu"}, id="cpu"),
    pytest.param("OutOfpods", "", {WHOLE_NODE}, id="no-place-for-anybody"),
    pytest.param("NodeShutdown", "", {WHOLE_NODE}, id="the-node-goes"),
    pytest.param("TopologyAffinityError", "cannot align", {ONE.kind_id}, id="pods-like-it"),
    pytest.param("NodeAffinity", "", {ONE.kind_id}, id="the-kubelet-sees-other-labels"),
    pytest.param(
        "UnexpectedAdmissionError",
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu",
        {GPU},
        id="the-device-manager-names-it",
    ),
    pytest.param("UnexpectedAdmissionError", "cpu manager", {ONE.kind_id}, id="it-does-not"),
]


@pytest.mark.parametrize(("reason", "message", "scopes"), SCOPES)
def test_as_few_pods_as_possible_avoid_the_node(
    reason: str, message: str, scopes: set[str]
) -> None:
    assert tripped(reason, message).avoided("n1") == scopes


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
    breaker = Breaker()
    for _ in range(10):
        assert bounce(breaker, reason) is None


def test_it_is_tried_again_after_its_pause() -> None:
    breaker = tripped()

    assert breaker.tick(NOW + PAUSE_FIRST_S - 0.1) == []
    assert breaker.tick(NOW + PAUSE_FIRST_S) == ["n1"]
    assert (breaker.avoided("n1"), len(breaker)) == (frozenset(), 0)


def test_one_more_rejection_opens_it_again_for_twice_as_long_up_to_half_an_hour() -> None:
    breaker, now, pauses = tripped(), NOW, []
    for _ in range(8):
        now += 2 * PAUSE_MAX_S
        breaker.tick(now)
        trip = bounce(breaker, now=now)
        assert trip is not None
        pauses.append(trip.pause_s)

    assert pauses == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_a_pod_that_runs_there_closes_it() -> None:
    breaker = tripped()
    breaker.tick(NOW + 31)
    breaker.bound(ONE, "n1", NOW + 31)
    breaker.runs(ONE.uid)

    assert bounce(breaker, now=NOW + 32) is None


def test_a_pod_that_runs_without_the_resource_proves_nothing_about_it() -> None:
    breaker = tripped()
    breaker.tick(NOW + 31)
    other = pod("cpu-only", requests={"cpu": "1"})
    breaker.bound(other, "n1", NOW + 31)
    breaker.runs(other.uid)

    assert bounce(breaker, now=NOW + 32) is not None


def test_a_pod_that_runs_during_the_pause_does_not_end_it() -> None:
    """It was bound before; the pause is short, and ends by itself."""
    breaker = Breaker()
    breaker.bound(pod("early", gpus=1), "n1", NOW)
    for _ in range(3):
        bounce(breaker)
    breaker.runs("team-early")

    assert breaker.avoided("n1") == {GPU}


def test_rejections_that_were_under_way_do_not_prolong_the_pause() -> None:
    breaker = tripped()
    assert [bounce(breaker, now=NOW + 1) for _ in range(5)] == [None] * 5
    breaker.tick(NOW + PAUSE_FIRST_S)

    assert breaker.avoided("n1") == frozenset()


def test_each_resource_of_a_node_has_a_circuit_of_its_own() -> None:
    breaker = tripped()
    mig = pod("m", mig={"2g.20gb": 1})
    assert bounce(breaker, f"OutOf{MIG_2G}", one=mig) is None
    for _ in range(2):
        bounce(breaker, f"OutOf{MIG_2G}", one=mig)

    assert breaker.avoided("n1") == {GPU, MIG_2G}


SUSPECTS = [
    pytest.param({}, 0.0, True, id="never-ran"),
    pytest.param({"phase": "Running"}, 0.0, False, id="it-ran"),
    pytest.param({"is_deleting": True}, 0.0, False, id="somebody-deleted-it"),
    pytest.param({"uid": "another"}, 0.0, False, id="not-bound-by-us"),
    pytest.param({}, FRESH_S, False, id="too-long-ago"),
]


@pytest.mark.parametrize(("state", "later", "suspect"), SUSPECTS)
def test_who_is_looked_up_when_he_vanishes(
    state: dict[str, object], later: float, suspect: bool
) -> None:
    breaker = Breaker()
    breaker.bound(ONE, "n1", NOW)

    assert breaker.is_suspect(msgspec.structs.replace(ONE, **state), NOW + later) == suspect


def test_a_pod_that_nobody_remembers_was_rejected_by_nobody() -> None:
    assert Breaker().rejected("nobody", OUT_OF_GPU, "", NOW) is None


def test_a_node_that_was_deleted_begins_afresh() -> None:
    breaker = tripped()
    breaker.gone("n1")

    assert breaker.avoided("n1") == frozenset()
    assert bounce(breaker) is None


def test_nothing_is_remembered_for_ever() -> None:
    breaker = Breaker()
    for number in range(50):
        one = pod(f"p{number}", gpus=1)
        breaker.bound(one, f"n{number}", NOW)
        breaker.bound(pod(f"q{number}"), f"n{number}", NOW)
        breaker.rejected(one.uid, OUT_OF_GPU, "", NOW)
    for _ in range(3):
        bounce(breaker)
    breaker.tick(NOW + PAUSE_FIRST_S)
    breaker.tick(NOW + PAUSE_FIRST_S + CALM_S)

    assert (breaker._fresh, breaker._circuits) == ({}, {})
