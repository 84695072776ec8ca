"""The API server may call twice for one admission: the first rewrite stands, nothing is summed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.admission import NOTHING, AdmissionDecision
from tests.unit.webhook.pods import (
    MIG_1G,
    MIG_2G,
    MIG_3G,
    answer,
    container,
    patched,
    pod,
    resources,
    rewrite,
    run,
)

ONE = {MIG_2G: "1"}


def second_call(rewrites: Any = ()) -> AdmissionDecision:
    """The scheduler's answer when it recognizes the pod's reservation."""
    return answer(known_reservation=True, rewrites=rewrites, reservation="r-1")


def first_pass(body: Any) -> Any:
    """The pod as the first call of the admission left it."""
    return patched(body, answer(rewrites=[rewrite()], reservation="r-1"))


def put_back(once: Any) -> Any:
    """The pod after LimitRanger added its default again."""
    again = json.loads(json.dumps(once))
    for side in ("limits", "requests"):
        resources(again)[side][MIG_2G] = "1"
    return again


@pytest.mark.contract("S2-B10")
@pytest.mark.parametrize("rewrites", [(), [rewrite()]], ids=["bare", "with-the-rewrites"])
def test_a_second_call_takes_away_what_limit_ranger_put_back(rewrites: Any) -> None:
    """reinvocationPolicy IfNeeded: the first rewrite stands, nothing is summed."""
    once = first_pass(pod(container(limits={**ONE, "cpu": "1"})))

    assert patched(put_back(once), second_call(rewrites)) == once


def test_each_container_loses_its_own_source_only() -> None:
    """The annotation has the first container's rewrite; the scheduler stores all of them."""
    moves = [rewrite(), rewrite(MIG_3G, container="b")]
    body = pod(container(limits=ONE), container("b", {MIG_3G: "1"}))
    once = patched(body, answer(rewrites=moves, reservation="r-1"))
    again = json.loads(json.dumps(once))
    for side in ("limits", "requests"):
        resources(again, 1)[side][MIG_3G] = "1"

    assert once["metadata"]["annotations"][well_known.FALLBACK] == "2g.20gb->1g.10gb"
    assert patched(again, second_call(moves)) == once


def test_scheduler_loss_between_calls_is_harmless() -> None:
    """The record on the pod has the rewrites; a request for both tiers would never fit."""
    once = first_pass(pod(container(limits=ONE)))

    result = patched(put_back(once), None)

    assert resources(result) == resources(once)
    assert well_known.RESERVATION not in result["metadata"]["annotations"]


@pytest.mark.parametrize("rewrites", [(), [rewrite()]], ids=["bare", "with-the-rewrites"])
def test_a_second_call_without_a_change_changes_nothing(rewrites: Any) -> None:
    """Idempotent, with the scheduler's first answer too."""
    once = first_pass(pod(container(limits={MIG_2G: "1", MIG_1G: "1"})))

    assert run(once, second_call(rewrites)).patch == ()


def test_a_second_call_keeps_an_added_container() -> None:
    """A sidecar injected by another webhook in between is not the source of a rewrite."""
    once = first_pass(pod(container(limits=ONE)))
    once["spec"]["containers"].append(container("injected", ONE))

    assert run(once, second_call()).patch == ()


def test_a_copied_record_does_not_take_a_request_away() -> None:
    """The annotations of a copied pod count only when the scheduler knows the reservation."""
    copied = first_pass(pod(container(limits=ONE)))
    for side in ("limits", "requests"):
        resources(copied)[side] = {MIG_2G: "1", MIG_1G: "1"}

    result = patched(copied, answer())

    assert resources(result)["limits"] == {MIG_2G: "1", MIG_1G: "1"}
    assert well_known.RESERVATION not in result["metadata"]["annotations"]


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({well_known.FALLBACK: "2g.20gb->1g.10gb"}, id="no-original"),
        pytest.param(
            {well_known.FALLBACK: "2g.20gb->1g.10gb", well_known.ORIGINAL: "{"},
            id="broken-original",
        ),
        pytest.param(
            {well_known.FALLBACK: "2g.20gb->1g.10gb", well_known.ORIGINAL: "[1]"}, id="odd"
        ),
        pytest.param(
            {well_known.FALLBACK: "nonsense", well_known.ORIGINAL: '{"app":{}}'}, id="no-arrow"
        ),
    ],
)
def test_an_unreadable_record_is_no_record(annotations: Any) -> None:
    """Nothing is taken away on the word of a text that we did not write."""
    body = pod(container(limits={MIG_2G: "1", MIG_1G: "1"}), annotations=annotations)

    assert run(body, answer(known_reservation=True)).patch == ()
    assert run(body, None).patch == ()


def test_second_call_ignores_a_pod_without_its_target() -> None:
    """If another plugin took the smaller tier away, the larger one is all the pod has."""
    once = first_pass(pod(container(limits=ONE)))
    for side in ("limits", "requests"):
        resources(once)[side] = dict(ONE)

    assert run(once, second_call()).patch == ()


def test_a_sidecar_that_is_put_first_between_the_calls_gets_nothing() -> None:
    """The first call gave the only container its device; the second one changes nothing."""
    first = [rewrite(source=NOTHING, target=MIG_2G, container="train")]
    body = pod(container("train"), annotations={well_known.WANTED_MEMORY: "16Gi"})
    once = patched(body, answer(rewrites=first, reservation="r-1"))
    spec = {**once["spec"], "containers": [container("sidecar"), *once["spec"]["containers"]]}
    between = {**once, "spec": spec}

    assert patched(between, second_call(first)) == between
    assert patched(between, second_call()) == between
    assert resources(between, 1)["limits"] == {MIG_2G: "1"}
