"""The places of dynamic MIG instances, and the missing instances of a decision."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.score_breakdown import rank
from scheduler.decide.view import WhatIfView
from scheduler.framework.decision import PendingPlacement, Placement
from scheduler.model.gpu.device import MigPlacement, format_devices
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import REASON_CODES
from tests.builders import (
    ALLOW_ALL_MAPS,
    cluster,
    codes,
    cut,
    dynamic,
    node,
    placed,
    pod,
    refused,
    settle,
)


def held(name: str, devices: str, **fields: Any) -> Any:
    mig = {part.partition("@")[0]: 1 for part in devices.split("; ")}
    return pod(name, **{"mig": mig, "node": "n1", "devices": devices, **fields})


def given(*objects: Any, **fields: Any) -> str:
    """Node and instances that a pod gets."""
    placement = placed(cluster(*objects), pod(**fields))
    return f"{placement.node_name} {format_devices(placement.devices)}"


BEST = [
    pytest.param([], "2g.20gb", "n1 2g.20gb@0/4", id="a-2g-leaves-room-for-4g"),
    pytest.param([], "3g.40gb", "n1 3g.40gb@0/4", id="a-3g-takes-the-half-that-4g-cannot"),
    pytest.param([], "1g.20gb", "n1 1g.20gb@0/6", id="a-double-takes-the-last-slice"),
    pytest.param([held("a", "2g.20gb@0/4")], "4g.40gb", "n1 4g.40gb@0/0", id="beside-what-is-held"),
    pytest.param(
        [held("a", "3g.40gb@1/4")], "4g.40gb", "n1 4g.40gb@1/0", id="the-gpu-that-it-fills"
    ),
]


@pytest.mark.parametrize(("there", "profile", "expected"), BEST)
def test_instance_goes_where_it_costs_least_layout(
    there: list[Any], profile: str, expected: str
) -> None:
    assert given(dynamic(gpus=2), *there, mig={profile: 1}) == expected


def test_several_instances_in_one_pod_are_placed_together() -> None:
    """One after the other, a 2g would take slice 4 and leave no room for the 3g."""
    text = given(dynamic(), mig={"2g.20gb": 2, "3g.40gb": 1})

    assert text == "n1 2g.20gb@0/0; 2g.20gb@0/2; 3g.40gb@0/4"


def test_instances_that_do_not_fit_together_are_refused_with_a_reason() -> None:
    state = cluster(dynamic())
    newcomer = pod(mig={"3g.40gb": 1, "2g.20gb": 2, "1g.20gb": 1})

    assert codes(state, newcomer) == {REASON_CODES["INSTANCES_DO_NOT_FIT_TOGETHER"]}
    assert codes(state, pod(mig={"2g.20gb": 4})) == {REASON_CODES["INSUFFICIENT"]}


def test_refusal_counts_the_free_placements() -> None:
    state = cluster(dynamic(gpus=2), held("a", "1g.10gb@0/0"), held("b", "1g.10gb@1/0"))

    assert sentence(refused(state, pod(mig={"7g.80gb": 1})).diagnosis) == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/mig-7g.80gb"
        " (need 1; best node has 0 free)."
    )


def test_existing_idle_instance_is_used_first() -> None:
    """Of places that cost the same later."""
    assert given(dynamic("n1"), dynamic("n2"), cut("n2", "2g.20gb@0/4"), mig={"2g.20gb": 1}) == (
        "n2 2g.20gb@0/4"
    )


def test_static_instances_precede_new_partitions() -> None:
    static = node("n9", mig={"2g.20gb": 1})

    assert given(dynamic("n1"), static, mig={"2g.20gb": 1}) == "n9 2g.20gb x 1"


def test_preferences_precede_layout_cost() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    preferred = {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": term}
                ]
            }
        }
    }
    there = held("a", "3g.40gb@0/4")  # n1 would be filled up

    text = given(
        *(dynamic("n1"), dynamic("n2", labels={"zone": "b"}), there),
        mig={"4g.40gb": 1},
        spec=preferred,
    )

    assert text == "n2 4g.40gb@0/0"


def test_of_equal_places_the_fuller_node_is_taken() -> None:
    """Both have an empty GPU; n2 has less left beside it."""
    filled = held("a", "7g.80gb@0/0", node="n2")

    assert given(dynamic("n1", gpus=2), dynamic("n2", gpus=2), filled, mig={"7g.80gb": 1}) == (
        "n2 7g.80gb@1/0"
    )


def test_only_missing_instances_are_partitioned() -> None:
    both = pod(mig={"1g.10gb": 1, "3g.40gb": 1})
    small, large = placed(cluster(dynamic()), both).devices.mig_placements

    decision = schedule_one(cluster(dynamic(), cut("n1", str(small))), both, ALLOW_ALL_MAPS)

    assert isinstance(decision, PendingPlacement)
    assert decision.new_instances == (large,)


READY = [
    pytest.param({"2g.20gb": 1}, Placement, id="and-the-kubelet-knows-it"),
    pytest.param({"2g.20gb": 0}, PendingPlacement, id="but-the-kubelet-does-not-know-it-yet"),
    pytest.param({}, PendingPlacement, id="but-it-is-not-advertised-at-all"),
]


@pytest.mark.parametrize(("advertised", "expected"), READY)
def test_an_instance_is_ready_when_it_exists(advertised: dict[str, int], expected: type) -> None:
    state = cluster(dynamic(mig=advertised), cut("n1", "2g.20gb@0/4"))

    assert type(schedule_one(state, pod(mig={"2g.20gb": 1}), ALLOW_ALL_MAPS)) is expected


def test_decided_instances_are_held_at_once() -> None:
    state = cluster(dynamic())
    mig_placements = [
        settle(state, pod(f"p-{n}", mig={"3g.40gb": 1})).devices.mig_placements for n in range(2)
    ]

    assert mig_placements == [(MigPlacement(0, 4, "3g.40gb"),), (MigPlacement(0, 0, "3g.40gb"),)]
    assert codes(state, pod("p-9", mig={"1g.10gb": 1})) == {REASON_CODES["INSUFFICIENT"]}


def test_expected_pod_holds_some_placement_and_not_the_node() -> None:
    """Such as the replacement that a migration waits for."""
    overlay = WhatIfView(cluster(dynamic(gpus=1)))
    overlay.hold([pod("later", mig={"3g.40gb": 1}, nominated="n1")])

    assert placed(overlay, pod(mig={"4g.40gb": 1})).devices.mig_placements == (
        MigPlacement(0, 0, "4g.40gb"),
    )


def test_a_mapped_pod_gets_its_instance_by_place_too() -> None:
    state = cluster(dynamic())
    mapped = pod("a-0", map="0=n1:0", mig={"2g.20gb": 1})

    assert format_devices(placed(state, mapped).devices) == "2g.20gb@0/4"


def test_pods_without_devices_avoid_unpartitioned_gpus() -> None:
    assert given(dynamic("n1"), node("n2"), requests={"cpu": "1"}) == "n2 "


def test_ranking_has_the_cost_difference() -> None:
    state = cluster(dynamic("n1"), dynamic("n2"), held("a", "3g.40gb@0/4"))
    placement = placed(state, pod(mig={"4g.40gb": 1}))

    ranking = rank(state, placement, ALLOW_ALL_MAPS)

    assert ranking is not None
    assert ranking.decided_by == "cost_delta"
    assert ranking.margin > 0
