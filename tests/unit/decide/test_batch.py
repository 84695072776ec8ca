"""Pods that are given together: all of them where all fit, else in the order of the queue."""

from __future__ import annotations

from scheduler.decide.batch import decide_together
from scheduler.decide.cycle import decide
from scheduler.decide.decision import Carve, Placement, Rejection
from scheduler.model.pod import Pod
from scheduler.state.cluster import Assumption, Cluster
from tests.builders import ANYBODY, cluster, dynamic, node, pod


def batch(*profiles: str, **wishes: object) -> list[Pod]:
    return [
        pod(f"p-{number}", mig={profile: 1}, **wishes)  # type: ignore[arg-type]
        for number, profile in enumerate(profiles)
    ]


def one_by_one(state: Cluster, pods: list[Pod]) -> list[bool]:
    placed = []
    for one in pods:
        decision = decide(state, one, ANYBODY)
        placed.append(isinstance(decision, Placement))
        if isinstance(decision, Placement):
            state.assume(one, Assumption(decision.node_name, decision.devices))
    return placed


def test_a_batch_that_only_fits_as_a_whole_is_placed_as_a_whole() -> None:
    pods = batch("2g.20gb", "2g.20gb", "3g.40gb")
    assert one_by_one(cluster(dynamic()), pods) == [True, True, False]

    decisions = decide_together(cluster(dynamic()), pods, ANYBODY)

    assert [str(one.devices.spots[0]) for one in decisions if isinstance(one, Carve)] == [
        "2g.20gb@0/0",
        "2g.20gb@0/2",
        "3g.40gb@0/4",
    ]


def test_a_batch_that_cannot_fit_is_decided_in_its_order() -> None:
    decisions = decide_together(cluster(dynamic()), batch("4g.40gb", "7g.80gb"), ANYBODY)

    assert [type(one) for one in decisions] == [Carve, Rejection]


def test_deciding_for_a_batch_changes_nothing() -> None:
    state = cluster(dynamic())
    decide_together(state, batch("2g.20gb", "2g.20gb", "3g.40gb"), ANYBODY)

    assert state.nodes.books["n1"].pods == {}


def test_a_batch_that_lacks_something_else_is_decided_in_its_order() -> None:
    """The slices would do, the processors do not."""
    pods = batch("2g.20gb", "2g.20gb", "3g.40gb", requests={"cpu": "2"})

    decisions = decide_together(cluster(dynamic(cpu="5")), pods, ANYBODY)

    assert [type(one) for one in decisions] == [Carve, Carve, Rejection]


def test_pods_that_the_nodes_cannot_take_are_not_squeezed_in() -> None:
    """A taint that one of them does not tolerate keeps the whole batch in its order."""
    tainted = dynamic("n2", taints=["a=b:NoSchedule"])

    decisions = decide_together(cluster(tainted), batch("1g.10gb"), ANYBODY)

    assert [type(one) for one in decisions] == [Rejection]


def test_pods_without_instances_of_their_own_are_decided_in_their_order() -> None:
    decisions = decide_together(
        cluster(node("n1", gpus=1)), [pod("a", gpus=1), pod("b", gpus=1)], ANYBODY
    )

    assert [type(one) for one in decisions] == [Placement, Rejection]
