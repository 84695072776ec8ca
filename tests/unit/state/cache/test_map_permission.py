"""Which maps take devices: those that our Binding honoured, and those of namespaces that may map.

A tenant without that right can still write a map and a node's name into a pod, or a map onto a
pod that runs. Neither takes a device from another pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.node import Namespace
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.state.node_info import DeviceUsage
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import restore, take
from tests.builders import codes, namespace, node, placed, pod

MAP = "0=g1:0"
MAY = namespace(maps=True)
MAY_NOT = namespace()
PLACED_BY_US = {well_known.DECISION: "d-1", well_known.EPOCH: "1"}


def labelled(*objects: Any) -> Cluster:
    """A cluster in which only labelled namespaces may map."""
    state = Cluster(maps_allow="labelled")
    see(state, objects)
    return state


def see(state: Cluster, objects: Iterable[Any]) -> None:
    for one in objects:
        match one:
            case Namespace():
                state.upsert_namespace(one)
            case _ if hasattr(one, "allocatable"):
                state.upsert_node(one)
            case _:
                state.upsert_pod(one)


def tally(state: Cluster) -> DeviceUsage:
    return state.nodes.node_info["g1"].usage


#: (pod, numbers, unknown) where the namespace may not map.
WITHOUT_THE_RIGHT = [
    pytest.param({"map": MAP}, (), 0, id="a-node-and-a-map-by-hand"),
    pytest.param(
        {"map": MAP, "annotations": PLACED_BY_US}, (), 0, id="a-map-after-we-placed-a-cpu-pod"
    ),
    pytest.param({"map": MAP, "gpus": 1}, (), 1, id="what-it-requests-is-held-all-the-same"),
    pytest.param({"map": MAP, "devices": "gpu:0"}, (0,), 0, id="our-binding-wrote-devices"),
    pytest.param({"map": MAP, "devices": "later text"}, (), 1, id="written-by-a-later-version"),
    pytest.param({"devices": "later text"}, (), 1, id="the-same-and-its-map-was-taken-off"),
]


@pytest.mark.parametrize(("fields", "numbers", "unknown"), WITHOUT_THE_RIGHT)
def test_devices_held_by_pods_of_namespaces_without_map_permission(
    fields: Any, numbers: tuple[int, ...], unknown: int
) -> None:
    state = labelled(
        node("g1", gpus=4, with_gpu_indexes=True), MAY_NOT, pod("a-0", node="g1", **fields)
    )

    assert (tuple(tally(state).holders), tally(state).unknown) == (numbers, unknown)


@pytest.mark.parametrize("with_gpu_indexes", [True, False], ids=["numbered", "counted"])
@pytest.mark.parametrize("annotations", [{}, PLACED_BY_US], ids=["by-hand", "after-placement"])
def test_map_without_permission_blocks_no_pod(
    with_gpu_indexes: bool, annotations: dict[str, str]
) -> None:
    """One such pod on each node would take every GPU out of service."""
    attacker = pod("blk-0", namespace="evil", map=MAP, node="g1", annotations=annotations)
    state = labelled(
        node("g1", gpus=2, with_gpu_indexes=with_gpu_indexes), namespace("evil"), attacker
    )

    assert placed(state, pod("mine", gpus=2)).node_name == "g1"


def test_a_map_in_a_namespace_that_may_map_keeps_others_away() -> None:
    state = labelled(node("g1", gpus=2), MAY, pod("a-0", map=MAP, node="g1"))

    assert {code.name for code in codes(state, pod("mine", gpus=1))} == {"KUBELET_ASSIGNS_DEVICES"}


@pytest.mark.parametrize("allow", ["all", "none"])
def test_the_configuration_decides_before_the_label(allow: str) -> None:
    state = Cluster(maps_allow=allow)
    see(state, (node("g1", gpus=4), MAY, pod("a-0", map=MAP, node="g1")))

    assert tally(state).unknown == (1 if allow == "all" else 0)


def test_new_map_permission_recounts_the_pods_of_the_namespace() -> None:
    state = labelled(node("g1", gpus=4), pod("a-0", map=MAP, node="g1"))
    assert tally(state).unknown == 0

    fold(state, ev.NamespaceUpdated(MAY))
    assert tally(state).unknown == 1

    fold(state, ev.NamespacesReplaced((MAY_NOT,)))
    assert tally(state).unknown == 0


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(ev.NamespaceUpdated(MAY_NOT), id="label-taken-off"),
        pytest.param(ev.NamespaceDeleted("team"), id="gone"),
        pytest.param(ev.NamespacesReplaced(()), id="not-listed"),
    ],
)
def test_lost_map_permission_requeues_waiting_pods(event: ev.Event) -> None:
    state = labelled(node("g1", gpus=4), MAY, pod("a-0", map=MAP, node="g1"))

    changes = fold(state, event)
    assert ev.ClusterEvent(RequeueCause.FREED, node_name="g1") in changes
    assert ev.ClusterEvent(RequeueCause.DEVICES, node_name="g1") in changes


def test_devices_of_our_binding_stay_held_without_map_permission() -> None:
    state = labelled(node("g1", gpus=4), MAY, pod("a-0", map=MAP, node="g1", devices="gpu:0"))
    changes = fold(state, ev.NamespaceUpdated(MAY_NOT))

    assert set(tally(state).holders) == {0}
    assert changes == [ev.ClusterEvent(RequeueCause.NAMESPACE, "team")]


def test_snapshot_counts_maps_like_its_state() -> None:
    for allow in ("all", "labelled"):
        state = Cluster(maps_allow=allow)
        see(state, (node("g1", gpus=4), MAY_NOT, pod("a-0", map=MAP, node="g1")))
        again = restore(take(state, SchedulingQueue(), Reservations(), 1, 1.0))

        assert tally(again).unknown == tally(state).unknown == (1 if allow == "all" else 0)
