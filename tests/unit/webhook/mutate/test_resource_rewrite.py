"""Moving MIG requests to another tier: what changes, what is recorded, what is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision
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
DEGRADE = answer(rewrites=[rewrite()])


@pytest.mark.contract("S0-20", "S0-21", "S0-22", "S3-2", "S3-17", "S3-19")
def test_degraded_request_changes_limits_and_requests_with_a_record() -> None:
    """The same quantity, the old key gone, the seeds' two annotations."""
    result = patched(pod(container(limits={**ONE, "cpu": "2", "memory": "1Gi"})), DEGRADE)

    expected = {MIG_1G: "1", "cpu": "2", "memory": "1Gi"}
    assert resources(result) == {"limits": expected, "requests": expected}
    assert result["metadata"]["annotations"] == {
        "gpu-webhook.k8s.io/fallback": "2g.20gb->1g.10gb",
        "adapter.gpu.turbonomic.ibm.com/original": json.dumps(
            {"app": {"limits": ONE, "requests": ONE}}, separators=(",", ":")
        ),
    }


@pytest.mark.contract("S0-20", "S0-B4")
@pytest.mark.parametrize("said", [None, answer()], ids=["scheduler-silent", "tier-is-free"])
def test_without_a_decision_nothing_is_modified(said: AdmissionDecision | None) -> None:
    """Without an answer of the scheduler no pod is degraded."""
    outcome = run(pod(container(limits=ONE)), said)

    assert (outcome.patch, outcome.denial) == ((), None)


@pytest.mark.contract("S0-23", "S0-B6")
@pytest.mark.parametrize(
    ("body", "said", "lines"),
    [
        pytest.param(
            pod(container(limits=ONE), name="test-medium-gpu"),
            DEGRADE,
            [
                "Reviewing pod: default/test-medium-gpu",
                "Pod default/test-medium-gpu requests 2g.20gb MIG",
                "2g.20gb not available, falling back to 1g.10gb for pod default/test-medium-gpu",
                "Applied fallback patch to pod default/test-medium-gpu",
            ],
            id="degraded",
        ),
        pytest.param(
            pod(container(limits=ONE), name="test-medium-gpu"),
            answer(),
            [
                "Reviewing pod: default/test-medium-gpu",
                "Pod default/test-medium-gpu requests 2g.20gb MIG",
            ],
            id="available",
        ),
        pytest.param(
            pod(container(limits=ONE), name="", owner="ReplicaSet"),
            DEGRADE,
            [
                "Reviewing pod: default/w-6bd69b846c-",
                "Pod default/w-6bd69b846c- requests 2g.20gb MIG",
                "2g.20gb not available, falling back to 1g.10gb for pod default/w-6bd69b846c-",
                "Applied fallback patch to pod default/w-6bd69b846c-",
            ],
            id="pod-of-a-controller",
        ),
    ],
)
@pytest.mark.parametrize(("scope", "scheduler"), [("ours", "gpu-scheduler"), ("any", "default")])
def test_fallback_log_lines(
    body: Any, said: AdmissionDecision, lines: list[str], scope: Any, scheduler: str
) -> None:
    """Byte for byte, in order, with the namespace of the request."""
    body["spec"]["schedulerName"] = scheduler

    assert list(run(body, said, scope).log) == lines


@pytest.mark.contract("S0-B7")
def test_a_container_that_already_has_the_target_gets_the_sum() -> None:
    """Its own slices are not overwritten."""
    result = patched(pod(container(limits={MIG_2G: "2", MIG_1G: "1"})), DEGRADE)

    assert resources(result) == {"limits": {MIG_1G: "3"}, "requests": {MIG_1G: "3"}}


@pytest.mark.contract("S0-B7")
def test_several_containers_and_init_containers_degrade_together() -> None:
    """One fallback annotation for the first container, the originals of all."""
    body = pod(
        container("a", {MIG_3G: "1"}),
        container("b", ONE),
        container("c", {"cpu": "1"}),
        init=[container("prep", ONE)],
        annotations={"team": "x"},
    )
    said = answer(
        rewrites=[
            rewrite(container="prep", init=True),
            rewrite(container="b"),
            rewrite(MIG_3G, MIG_1G, container="a"),
        ]
    )

    result = patched(body, said)

    assert [item["resources"]["limits"] for item in result["spec"]["containers"]] == [
        {MIG_1G: "1"},
        {MIG_1G: "1"},
        {"cpu": "1"},
    ]
    assert result["spec"]["initContainers"][0]["resources"]["requests"] == {MIG_1G: "1"}
    given = result["metadata"]["annotations"]
    assert given["team"] == "x"
    assert given[well_known.FALLBACK] == "3g.40gb->1g.10gb"
    assert json.loads(given[well_known.ORIGINAL]).keys() == {"a", "b", "prep"}
    assert [line for line in run(body, said).log if "falling back" in line] == [
        "2g.20gb not available, falling back to 1g.10gb for pod default/w-0",
        "3g.40gb not available, falling back to 1g.10gb for pod default/w-0",
    ]


def test_moves_within_one_container_happen_at_once() -> None:
    """A request that was just replaced is not replaced again."""
    said = answer(rewrites=[rewrite(MIG_3G, MIG_2G), rewrite(MIG_2G, MIG_1G)])

    result = patched(pod(container(limits={MIG_3G: "1", MIG_2G: "4"})), said)

    assert resources(result)["limits"] == {MIG_2G: "1", MIG_1G: "4"}


def test_two_tiers_that_become_one_are_added() -> None:
    """No slice is lost on the way."""
    said = answer(rewrites=[rewrite(MIG_3G, MIG_1G), rewrite(MIG_2G, MIG_1G)])

    result = patched(pod(container(limits={MIG_3G: "1", MIG_2G: "4", MIG_1G: "2"})), said)

    assert resources(result)["requests"] == {MIG_1G: "7"}


@pytest.mark.contract("S0-25")
def test_a_whole_gpu_is_called_gpu_in_the_record() -> None:
    """The seed's grammar for the last rung."""
    result = patched(pod(container(limits=ONE)), answer(rewrites=[rewrite(MIG_2G, well_known.GPU)]))

    assert result["metadata"]["annotations"][well_known.FALLBACK] == "2g.20gb->gpu"


@pytest.mark.parametrize(
    "amount",
    [
        pytest.param("1", id="text"),
        pytest.param(1, id="number"),
        pytest.param("1000m", id="milli"),
        pytest.param("1k", id="kilo"),
    ],
)
def test_a_moved_quantity_keeps_its_spelling(amount: Any) -> None:
    """The API server knows how to read it; we do not need to rewrite it."""
    result = patched(pod(container(limits={MIG_2G: amount})), DEGRADE)

    assert resources(result) == {"limits": {MIG_1G: amount}, "requests": {MIG_1G: amount}}


@pytest.mark.parametrize(
    ("limits", "requests"),
    [
        pytest.param(None, {MIG_2G: "1"}, id="request-without-limit"),
        pytest.param({MIG_2G: "2"}, {MIG_2G: "1"}, id="request-unlike-limit"),
        pytest.param({MIG_2G: "0"}, {MIG_2G: "0"}, id="zero"),
        pytest.param({MIG_2G: "1_0"}, {MIG_2G: "1_0"}, id="not-a-quantity"),
        pytest.param({MIG_2G: "-1"}, None, id="negative"),
        pytest.param({MIG_2G: "1", MIG_1G: "2"}, {MIG_2G: "1", MIG_1G: "1"}, id="odd-target"),
    ],
)
def test_invalid_quantities_are_left_to_the_api_server(limits: Any, requests: Any) -> None:
    """No limit, unequal, zero or unreadable: not ours to mend."""
    body = pod(container(limits=limits, requests=requests))

    assert run(body, DEGRADE).patch == ()


def test_zero_target_amount_is_ignored() -> None:
    """It is replaced, not added to and not a reason to refuse."""
    result = patched(pod(container(limits={MIG_2G: "1", MIG_1G: "0"})), DEGRADE)

    assert resources(result) == {"limits": {MIG_1G: "1"}, "requests": {MIG_1G: "1"}}


@pytest.mark.parametrize(
    ("requests", "after"),
    [
        pytest.param({}, {}, id="to-be-defaulted"),
        pytest.param({"cpu": "1"}, {"cpu": "1"}, id="only-others"),
        pytest.param({MIG_1G: "1"}, {MIG_1G: "2"}, id="only-the-target"),
    ],
)
def test_requests_that_are_not_filled_in_yet_end_up_equal_to_limits(
    requests: Any, after: Any
) -> None:
    """The API server defaults a missing request from the limit, never one that is there."""
    own = {MIG_1G: "1"} if MIG_1G in requests else {}
    result = patched(pod(container(limits={**ONE, **own}, requests=requests)), DEGRADE)

    assert resources(result)["requests"] == after
    assert resources(result)["limits"][MIG_1G] == after.get(MIG_1G, "1")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(answer(rewrites=[rewrite(container="other")]), id="other-container"),
        pytest.param(answer(rewrites=[rewrite(init=True)]), id="init-container-of-that-name"),
        pytest.param(answer(rewrites=[rewrite(MIG_3G)]), id="resource-not-asked"),
    ],
)
def test_rewrite_of_an_absent_resource_changes_nothing(said: AdmissionDecision) -> None:
    """An answer about an older object cannot damage this one."""
    assert run(pod(container(limits=ONE)), said).patch == ()
