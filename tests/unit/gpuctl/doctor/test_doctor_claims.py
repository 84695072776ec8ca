"""What the doctor says of two schedulers on the same devices."""

from __future__ import annotations

import msgspec
import pytest

from gpuctl.doctor.checks import examine
from gpuctl.doctor.collect_claims import excesses
from gpuctl.doctor.facts import Excess, Facts, Unread
from gpuctl.doctor.finding import Level
from tests.dra import Json, allocation_json, claim_json, device_json, result_json, slice_json
from tests.unit.gpuctl.doctor.wellcluster import BY_DRA, RESERVED, facts, node

BOTH = (Excess("device gpu.example.com/n1/gpu-0", ("team/a", "team/b")),)
SHARED = device_json(
    "shared", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}}
)
CARD = {"name": "card", "counters": {"memory-slice-0": {"value": "1"}}}
USES = [{"counterSet": "card", "counters": CARD["counters"]}]
SLICES = (
    slice_json("n1", name="c", slices=2, sharedCounters=[CARD], nodeName="n1"),
    slice_json(
        "n1",
        *("gpu-0", "gpu-1", SHARED),
        *(device_json(name, consumesCounters=USES) for name in ("part", "whole")),
        name="d",
        slices=2,
    ),
)


def encoded(*objects: Json) -> list[bytes]:
    return [msgspec.json.encode(one) for one in objects]


def found(*results: Json) -> tuple[Excess, ...]:
    """Two claims with one device each, and one without an allocation."""
    claims = [
        claim_json(name, allocation=allocation_json(one))
        for name, one in zip("ab", results, strict=True)
    ]
    return excesses(encoded(*claims, claim_json("free")), encoded(*SLICES))


def share(amount: str, number: str) -> Json:
    """A share of a device."""
    return result_json("shared", shareID=number, consumedCapacity={"memory": amount})


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(result_json(), BOTH, id="same-device"),
        pytest.param(result_json("gpu-1"), (), id="another-device"),
        pytest.param(result_json(node="n2"), (), id="another-node"),
        pytest.param(result_json(adminAccess=True), (), id="admin-access"),
    ],
)
def test_device_is_found_that_two_claims_have_as_a_whole(
    second: Json, expected: tuple[Excess, ...]
) -> None:
    assert found(result_json(), second) == expected


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        pytest.param(
            share("30Gi", "s"),
            share("20Gi", "t"),
            "capacity memory of device gpu.example.com/n1/shared",
            id="capacity",
        ),
        pytest.param(
            result_json("part"),
            result_json("whole"),
            "counter memory-slice-0 of card for device gpu.example.com/n1/part",
            id="counter",
        ),
    ],
)
def test_parts_of_a_device_are_found_of_which_claims_have_too_much(
    first: Json, second: Json, what: str
) -> None:
    assert what in [one.what for one in found(first, second)]
    assert all(one.claims == ("team/a", "team/b") for one in found(first, second))


def test_shares_for_which_there_is_room_are_no_fault() -> None:
    assert found(share("20Gi", "s"), share("20Gi", "t")) == ()


def test_device_that_is_not_published_any_more_is_found_too() -> None:
    claims = [claim_json(name, allocation=allocation_json(result_json("gone"))) for name in "ab"]

    (one,) = excesses(encoded(*claims), [])

    assert one.what == "device gpu.example.com/n1/gone"


def faults(found: Facts) -> list[tuple[str, str, str]]:
    bad = [one for one in examine(found) if one.level is not Level.OK]
    assert all(one.advice for one in bad)
    return [(one.level.value, one.about, one.says) for one in bad]


def test_nodes_with_dra_devices_need_a_taint_against_other_schedulers() -> None:
    bare = node(offers={}, capacity={})

    says = "no taint keeps the pods of other schedulers from the devices of n1"
    assert faults(facts(nodes=bare, **BY_DRA)) == [("WARN", "partition", says)]
    assert faults(facts(nodes=node(offers={}, capacity={}, **RESERVED), **BY_DRA)) == []


def test_devices_in_two_claims_are_a_fault() -> None:
    says = "allocated to several claims: 1, as device gpu.example.com/n1/gpu-0 to team/a, team/b"
    assert faults(facts(excesses=BOTH)) == [("FAIL", "claims", says)]
    assert faults(facts(excesses=Unread("no"))) == [("WARN", "claims", "not known: no")]
