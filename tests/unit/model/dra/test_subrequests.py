"""Which subrequests a claim has, and the claim of its pod's replacement."""

from __future__ import annotations

import pytest

from scheduler.model.dra.claim_plan import PlannedClaim
from scheduler.model.dra.subrequests import degraded_requests, first_choice, given
from tests.dra import DRIVER, Json, allocation_json, request_json, resource_claim, result_json


def choice(name: str, *subrequests: str) -> Json:
    """The first of some subrequests."""
    named = [{"name": one, "deviceClassName": one} for one in subrequests]
    return {"name": name, "firstAvailable": named}


GPUS = choice("gpu", "large", "small")


@pytest.mark.parametrize(
    ("requests", "results", "has", "degraded"),
    [
        pytest.param([GPUS], ["gpu/large"], {"gpu": "large"}, [], id="first"),
        pytest.param([GPUS], ["gpu/small"] * 2, {"gpu": "small"}, ["gpu"], id="second-of-two"),
        pytest.param([GPUS], [], {}, [], id="no-devices"),
        pytest.param([request_json("gpu")], ["gpu"], {}, [], id="exactly"),
        pytest.param(
            [choice("a", "x", "y"), request_json("b"), choice("c", "x", "y", "z")],
            ["a/y", "b", "c/z"],
            {"a": "y", "c": "z"},
            ["a", "c"],
            id="several",
        ),
        pytest.param(
            [choice("a", "x", "y"), choice("b", "y")],
            ["a/x", "b/y"],
            {"a": "x", "b": "y"},
            [],
            id="equal-names",
        ),
    ],
)
def test_a_request_is_degraded_by_a_later_subrequest(
    requests: list[Json], results: list[str], has: dict[str, str], degraded: list[str]
) -> None:
    allocation = allocation_json(*(result_json(request=one) for one in results))
    claim = resource_claim("gpus", *requests, allocation=allocation)

    assert given(claim) == has
    assert [one.name for one in degraded_requests(claim)] == degraded


def test_a_claim_without_an_allocation_has_no_subrequest() -> None:
    claim = resource_claim("gpus", GPUS)

    assert given(claim) == {}
    assert degraded_requests(claim) == ()


def test_first_choice_has_one_subrequest_per_request_unallocated() -> None:
    allocation = allocation_json(result_json(request="gpu/small"))
    claim = resource_claim(
        "gpus", GPUS, request_json("net"), allocation=allocation, users=["p"], owner="p"
    )

    first = first_choice(claim)

    assert (first.key, first.owner_uid) == (claim.key, "p")
    assert (first.allocation, first.reserved_for) == (None, ())
    [gpu, net] = first.requests
    assert [one.name for one in gpu.first_available] == ["large"]
    assert net == claim.requests[1]


def test_a_decision_names_the_subrequest_of_a_device() -> None:
    allocation = allocation_json(result_json("gpu-0", request="gpu/small"), result_json("nic-0"))
    claim = resource_claim("gpus", GPUS, allocation=allocation)

    text = str(PlannedClaim(claim.key, claim.uid, claim.allocation))

    assert text == f"gpus ({DRIVER}/n1/gpu-0 as gpu/small {DRIVER}/n1/nic-0)"
