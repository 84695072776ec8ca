"""Pods that are given together: all of them where all fit, else in the order of the queue."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.batch import plan_batch
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import PendingPlacement, Placement
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Assumption, Cluster
from tests.builders import ALLOW_ALL_MAPS, cluster, dynamic, node, pod

APART: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
            ]
        }
    }
}


def batch(*profiles: str, **fields: Any) -> list[Pod]:
    return [
        pod(f"p-{number}", mig={profile: 1}, **fields) for number, profile in enumerate(profiles)
    ]


def one_by_one(state: Cluster, pods: list[Pod]) -> list[bool]:
    placed = []
    for one in pods:
        decision = schedule_one(state, one, ALLOW_ALL_MAPS)
        placed.append(isinstance(decision, Placement))
        if isinstance(decision, Placement):
            state.assume(one, Assumption(decision.node_name, decision.devices))
    return placed


def test_a_batch_that_only_fits_as_a_whole_is_placed_as_a_whole() -> None:
    pods = batch("2g.20gb", "2g.20gb", "3g.40gb")
    assert one_by_one(cluster(dynamic()), pods) == [True, True, False]

    placements = plan_batch(cluster(dynamic()), pods, ALLOW_ALL_MAPS)

    assert [
        str(one.devices.mig_placements[0])
        for one in placements or ()
        if isinstance(one, PendingPlacement)
    ] == [
        "2g.20gb@0/0",
        "2g.20gb@0/2",
        "3g.40gb@0/4",
    ]


def test_joint_placements_are_found_among_full_nodes() -> None:
    full = [f"full-{at}" for at in range(6)]
    state = cluster(*map(dynamic, full), dynamic("left"))
    for name in full:
        mig_placements = (MigPlacement(0, 0, "7g.80gb"),)
        state.assume(
            pod(f"on-{name}", mig={"7g.80gb": 1}),
            Assumption(name, Devices(mig_placements=mig_placements)),
        )

    placements = plan_batch(state, batch("2g.20gb", "2g.20gb", "3g.40gb"), ALLOW_ALL_MAPS)

    assert [one.node_name for one in placements or ()] == ["left"] * 3


@pytest.mark.parametrize(
    ("pods", "state"),
    [
        pytest.param(batch("4g.40gb", "7g.80gb"), cluster(dynamic()), id="too-much-in-any-order"),
        pytest.param(batch("2g.20gb", "1g.10gb"), cluster(dynamic()), id="their-order-will-do"),
        pytest.param(batch("7g.80gb"), cluster(dynamic()), id="one-alone"),
        pytest.param(
            batch("2g.20gb", "2g.20gb", "3g.40gb", requests={"cpu": "2"}),
            cluster(dynamic(cpu="5")),
            id="the-slices-would-do-and-the-processors-do-not",
        ),
        pytest.param(
            batch("2g.20gb", "2g.20gb", "3g.40gb"),
            cluster(dynamic("n2", taints=["a=b:NoSchedule"])),
            id="nodes-that-they-do-not-tolerate",
        ),
        pytest.param(
            batch("2g.20gb", "2g.20gb", "3g.40gb", labels={"app": "x"}, spec=APART),
            cluster(dynamic(labels={"zone": "a"})),
            id="pods-that-exclude-each-other",
        ),
        pytest.param(
            [*batch("2g.20gb", "2g.20gb", "3g.40gb"), pod("whole", gpus=1)],
            cluster(dynamic()),
            id="one-of-them-asks-for-more-than-an-instance",
        ),
        pytest.param(
            [pod("a", gpus=1), pod("b", gpus=1)], cluster(node("n1", gpus=1)), id="whole-gpus"
        ),
    ],
)
def test_otherwise_pods_are_placed_in_queue_order(pods: list[Pod], state: Cluster) -> None:
    assert plan_batch(state, pods, ALLOW_ALL_MAPS) is None


def test_joint_search_changes_no_state() -> None:
    state = cluster(dynamic())
    plan_batch(state, batch("2g.20gb", "2g.20gb", "3g.40gb"), ALLOW_ALL_MAPS)

    assert state.nodes.node_info["n1"].pods == {}
