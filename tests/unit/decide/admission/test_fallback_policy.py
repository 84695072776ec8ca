"""Ladders at admission: whose ladder counts, what is rewritten, and the second call."""

from __future__ import annotations

import pytest

from scheduler.decide.admission.admit import Rules
from scheduler.model import well_known
from scheduler.model.admission import ResourceRewrite
from scheduler.model.mig.fallback_ladder import OFF, parse_ladder
from tests.builders import MIG_1G, MIG_2G, container, namespace, node, pod
from tests.unit.decide.admission.admission_world import RULES, World, wants_2g

DEGRADED, WAITS, DENIED = "1g.10gb", "pending", "denied"

ROOMS = node("m", mig={"1g.10gb": 9, "1g.20gb": 1})
LADDERS = [
    pytest.param({}, None, "1g.20gb", id="configured-memory-before-compute"),
    pytest.param({well_known.MIG_FALLBACK: "2g.20gb->1g.10gb"}, None, DEGRADED, id="the-pods-own"),
    pytest.param({}, "2g.20gb->1g.10gb", DEGRADED, id="the-namespaces"),
    pytest.param(
        {well_known.MIG_FALLBACK: "2g.20gb->1g.10gb"}, "off", DEGRADED, id="pod-before-namespace"
    ),
    pytest.param({well_known.MIG_FALLBACK: "off"}, None, WAITS, id="opted-out"),
    pytest.param({}, "off", WAITS, id="namespace-opted-out"),
    pytest.param({well_known.MIG_FALLBACK: "3g.40gb->1g.10gb"}, None, WAITS, id="of-other-tiers"),
    pytest.param(
        {well_known.MIG_FALLBACK: "2g.20gb->7g.80gb->1g.10gb"}, None, DEGRADED, id="skips"
    ),
]


@pytest.mark.contract("S0-B9", "S0-26", "S0-32")
@pytest.mark.parametrize(("annotations", "of_namespace", "tier"), LADDERS)
def test_ladder_of_pod_precedes_namespace_and_configuration(
    annotations: dict[str, str], of_namespace: str | None, tier: str
) -> None:
    world = World(ROOMS, namespace("team", ladder=of_namespace))

    assert world.admit(wants_2g(annotations=annotations)) == tier


@pytest.mark.contract("S0-26")
def test_ladder_ending_in_fail_denies_and_lists_tried_tiers() -> None:
    strict = {well_known.MIG_FALLBACK: "2g.20gb->1g.10gb->fail"}
    admission = World(node("n", gpus=1)).ask(wants_2g(annotations=strict))

    assert admission.result == DENIED
    assert admission.answer.denied == (
        "none of 2g.20gb, 1g.10gb is free and the ladder ends in fail"
    )


def test_ladder_ending_in_fail_denies_no_pod_with_a_free_tier() -> None:
    strict = {well_known.MIG_FALLBACK: "2g.20gb->1g.10gb->fail"}

    assert World(ROOMS).admit(wants_2g(annotations=strict)) == DEGRADED


def test_unreadable_ladder_of_a_pod_is_denied() -> None:
    admission = World(ROOMS).ask(wants_2g(annotations={well_known.MIG_FALLBACK: "2g->1g"}))

    assert admission.result == DENIED
    assert str(admission.answer.denied).startswith(
        "gpu-scheduler.io/mig-fallback: ladder tier '2g' is not a MIG profile"
    )


def test_a_namespaces_unreadable_ladder_warns_and_changes_nothing() -> None:
    admission = World(ROOMS, namespace("team", ladder="nonsense")).ask(wants_2g())

    assert admission.result == WAITS
    [warning] = admission.answer.warnings
    assert warning.startswith("namespace team, gpu-scheduler.io/mig-fallback: ladder tier")


@pytest.mark.contract("S0-B7", "S0-22")
def test_containers_are_rewritten_and_reserved_one_to_one() -> None:
    asked = pod(
        "web-",
        uid="",
        init=[container("prep", requests={MIG_2G: 1})],
        containers=[
            container("a", requests={MIG_2G: 2}),
            container("b", requests={MIG_1G: 1}),
            container("c", requests={MIG_2G: 1, "cpu": "1"}),
        ],
    )
    admission = World(node("m", mig={"1g.10gb": 9})).ask(asked)

    assert admission.answer.rewrites == (
        ResourceRewrite(container="prep", source=MIG_2G, target=MIG_1G, init=True),
        ResourceRewrite(container="a", source=MIG_2G, target=MIG_1G),
        ResourceRewrite(container="c", source=MIG_2G, target=MIG_1G),
    )
    assert admission.granted is not None
    assert admission.granted.pod.requests == {MIG_1G: 4, "cpu": 1000}


def test_two_tiers_of_one_pod_are_chosen_together() -> None:
    """The larger requests first, so that the reduction is minimal."""
    ladders = Rules(ladders=(parse_ladder("3g.40gb->2g.20gb"), parse_ladder("2g.20gb->1g.10gb")))
    world = World(node("m", mig={"3g.40gb": 1, "1g.10gb": 9}), rules=ladders)
    asked = pod("x", uid="", mig={"3g.40gb": 1, "2g.20gb": 1})

    granted = world.ask(asked).granted
    assert granted is not None
    assert granted.pod.gpu_requests == {"nvidia.com/mig-3g.40gb": 1, MIG_1G: 1}


def test_a_ladder_may_go_up() -> None:
    up = {well_known.MIG_FALLBACK: "1g.10gb->2g.20gb"}
    asked = pod("x", uid="", mig={"1g.10gb": 1}, annotations=up)

    assert World(node("m", mig={"2g.20gb": 1})).admit(asked) == "2g.20gb"


def test_off_is_a_ladder_too() -> None:
    rules = Rules(ladders=(OFF,))

    assert World(node("m", mig={"1g.10gb": 1}), rules=rules).admit(wants_2g()) == WAITS
    assert World(node("m", mig={"1g.10gb": 1}), rules=RULES).admit(wants_2g()) == DEGRADED


# --- the second call -----------------------------------------------------------------


def test_second_call_for_one_admission_repeats_the_answer() -> None:
    """And reserves nothing more."""
    world = World(node("m", mig={"1g.10gb": 1}))
    world.admit(wants_2g())
    again = pod("web-", uid="", mig={"1g.10gb": 1}, annotations={well_known.RESERVATION: "r-1"})

    admission = world.ask(again)

    assert admission.granted is None
    assert admission.answer.known_reservation
    assert admission.answer.reservation == "r-1"
    assert admission.answer.rewrites == (
        ResourceRewrite(container="app", source=MIG_2G, target=MIG_1G),
    )


def test_unknown_reservation_annotation_is_ignored() -> None:
    invented = wants_2g(annotations={well_known.RESERVATION: "r-1"})
    admission = World(node("m", mig={"1g.10gb": 1})).ask(invented)

    assert not admission.answer.known_reservation
    assert admission.result == "degraded"
