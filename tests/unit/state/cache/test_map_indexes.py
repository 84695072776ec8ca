"""Which index of a map is held, and by which pod: of one workload and one map text."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.cache.cluster import Assumption
from scheduler.state.event import ClusterEvent
from tests.builders import cluster, pod

GPU_0 = Devices((0,))
MAP = "0=n1:0\n1=n1:1"


@pytest.mark.parametrize("said", [{}, {well_known.MAP: "0=n1:2"}], ids=["no-map", "another-map"])
def test_other_map_texts_hold_no_index_of_this_map(said: dict[str, str]) -> None:
    """Another role of the workload, or the template before or after an edit."""
    other = pod("a", owner="Deployment/web", node="n1", index=0, annotations=said)
    state = cluster(other)

    assert state.indexes_held(pod("b", owner="Deployment/web", map=MAP)) == {}


def test_edited_map_of_a_running_pod_frees_its_index() -> None:
    before = pod("a", owner="Deployment/web", node="n1", index=0, map=MAP)
    state = cluster(before)

    changes = state.upsert_pod(pod("a", owner="Deployment/web", node="n1", index=0, map="0=n1:3"))

    assert ClusterEvent(RequeueCause.OWNER, before.workload) in changes
    assert state.indexes_held(before) == {}


def test_indexes_are_held_by_placed_and_assumed_pods_of_the_workload() -> None:
    owner, other = "Deployment/web@r1", "Deployment/web@r2"
    bound = pod("a", owner=owner, node="n1", index=0, map=MAP)
    waiting, chosen = pod("b", owner=owner, map=MAP), pod("c", owner=other, map=MAP)
    foreign = pod("d", owner="Job/web", node="n1", index=3, map=MAP)
    state = cluster(bound, waiting, chosen, foreign)
    state.assume(chosen, Assumption("n1", GPU_0, 2))

    assert state.indexes_held(bound) == {0: bound, 2: chosen}
    state.delete_pod(bound.uid)
    state.forget(chosen.uid)
    assert state.indexes_held(bound) == {}


@pytest.mark.parametrize("text", ["", "x", "-1", "\u0663", "12345678901", "1.0"])
def test_unreadable_index_is_not_held(text: str) -> None:
    said = {"gpu-scheduler.io/pod-index": text}
    odd = pod("a", owner="Job/j", node="n1", map=MAP, annotations=said)

    assert cluster(odd).indexes_held(odd) == {}


def test_orphaned_pod_is_no_sibling() -> None:
    """Taking a label off a pod makes its ReplicaSet let go of it; it lives on by itself."""
    owned = pod("a", owner="Deployment/web", node="n1", index=0, map=MAP)
    released = pod("a", node="n1", index=0, map=MAP)
    state = cluster(owned)
    state.upsert_pod(released)

    assert state.indexes_held(owned) == {}
    state.delete_pod(released.uid)
    assert state.indexes_held(owned) == {}
