"""What follows after each restart of a plan, in every state that the cluster may be in then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpuctl.defrag_progress import NotYet, Placed, Ready, next_step
from scheduler.decide.migration.defrag import plan
from scheduler.decide.migration.defrag_plan import Plan
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS, cluster, dynamic, pod

BIG = pod("big", mig={"4g.40gb": 1})


def held(name: str, devices: str, node_name: str, **fields: Any) -> Pod:
    """A pod of a Deployment of the same letter that holds one instance."""
    mig = {devices.partition("@")[0]: 1}
    owner = f"Deployment/{name[0]}@1"
    return pod(name, mig=mig, node=node_name, devices=devices, owner=owner, **fields)


#: ``y`` has to leave slice 6 of node b for ``x``, and ``x`` slice 0 of node a for ``big``.
Y, X = held("y", "1g.10gb@0/6", "b"), held("x", "3g.40gb@0/0", "a")
OTHERS = (
    *(dynamic("a"), dynamic("b"), held("i", "1g.20gb@0/6", "a")),
    *(held("j", "1g.10gb@0/1", "b"), held("k", "2g.20gb@0/2", "b")),
)
NEW_Y = held("y-new", "1g.10gb@0/0", "b")
START = cluster(*OTHERS, X, Y, BIG)


def replan(state: Cluster, newcomer: Pod, moves_max: int) -> Plan | None:
    """The plan without a condition on the pods."""
    return plan(state, newcomer, ALLOW_ALL_MAPS, moves_max=moves_max)


def after_y(*pods: Pod, pending: Pod | None = BIG) -> Ready | NotYet | Placed:
    """What follows after the restart of ``y`` in this state."""
    chosen = replan(START, BIG, 2)
    assert chosen is not None
    assert [move.pod.name for move in chosen.moves] == ["y", "x"]
    return next_step(chosen, 1, START, cluster(*OTHERS, *pods), pending, replan)


def test_next_pod_is_evicted_once_the_first_replacement_is_placed() -> None:
    assert after_y(X, NEW_Y, BIG) == Ready(X)


def test_placed_waiting_pod_needs_no_other_restart() -> None:
    placed = held("big", "4g.40gb@0/0", "a")

    assert after_y(NEW_Y, placed, pending=None) == Placed()


@pytest.mark.parametrize(
    ("pods", "pending", "text"),
    [
        pytest.param(
            (X, held("y", "1g.10gb@0/6", "b", deleting=True), NEW_Y, BIG),
            BIG,
            "team/y has not ended",
            id="the old pod still ends",
        ),
        pytest.param(
            (X, BIG), BIG, "no replacement of team/y is placed", id="no replacement exists"
        ),
        pytest.param(
            (X, pod("y-new", mig={"1g.10gb": 1}, owner="Deployment/y@1"), BIG),
            BIG,
            "no replacement of team/y is placed",
            id="the replacement waits",
        ),
        pytest.param(
            (X, held("y-new", "1g.10gb@0/6", "b"), BIG),
            BIG,
            "without team/x there would not be room for team/big",
            id="the replacement took the same slice again",
        ),
        pytest.param(
            (X, NEW_Y, held("z", "3g.40gb@0/4", "b"), BIG),
            BIG,
            "without team/x there would not be room for team/big",
            id="another pod took the slices",
        ),
        pytest.param(
            (held("x", "3g.40gb@0/0", "a", deleting=True), NEW_Y, dynamic("c"), BIG),
            BIG,
            "the cheapest plan would move no pod now",
            id="the waiting pod fits now",
        ),
        pytest.param((X, NEW_Y), None, "team/big is gone", id="the waiting pod is gone"),
    ],
)
def test_nothing_is_evicted_while_the_plan_does_not_hold(
    pods: tuple[Any, ...], pending: Pod | None, text: str
) -> None:
    assert after_y(*pods, pending=pending) == NotYet(text)


def test_pod_that_stays_is_not_evicted_for_another_plan() -> None:
    """The rest of the plan must be the confirmed pod, not any plan."""
    moved = msgspec.structs.replace(X, uid="other", name="other")

    assert after_y(moved, NEW_Y, BIG) == NotYet("the cheapest plan would move team/other now")
