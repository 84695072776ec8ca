"""Folds events into the cluster state; an invalid object does not affect the others.

An object that cannot be folded is stored as unreadable: such a pod holds an unknown part of its
node, and such a node accepts no pods. If that fails too, the state is wrong and the process ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import get_args

import msgspec

from scheduler.model.dra.pod_claims import NO_CLAIMS
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod, Unread
from scheduler.model.volumes.pod_volumes import NO_VOLUMES
from scheduler.report.containment import Containment
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import Effects
from scheduler.state.fold import apart, fold
from scheduler.state.invariant import InvariantViolation


class ClusterCache:
    """Keeps one cluster state up to date; ``wall`` is Unix time, for the age of new nodes."""

    name = "cluster-cache"
    handles = (
        *(ev.PodUpdated, ev.PodDeleted, ev.PodsReplaced, ev.BindEnded),
        *(ev.NodeUpdated, ev.NodeDeleted, ev.NodesReplaced),
        *(ev.NamespaceUpdated, ev.NamespaceDeleted, ev.NamespacesReplaced),
        *(ev.QuotaUpdated, ev.QuotasReplaced, *get_args(ev.PartitionEvent)),
        *(*get_args(ev.BudgetEvent), *get_args(ev.StorageEvent)),
        *(*get_args(ev.DraEvent), ev.ClaimsReserved, ev.ClaimsReleased),
        *(*get_args(ev.PodGroupEvent), ev.TeamsRead),
    )

    def __init__(self, cluster: Cluster, contain: Containment, wall: Callable[[], float]) -> None:
        self._cluster = cluster
        self._contain = contain
        self._wall = wall

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Fold an event; a list is folded object by object."""
        try:
            parts = list(apart(self._cluster, event))
        except Exception as problem:  # a lost list would leave the state wrong permanently
            raise _broken(about_event(event), problem) from problem
        is_list_of_pods = isinstance(event, ev.PodsReplaced)
        with self._cluster.nodes.indexed_once() if is_list_of_pods else nullcontext():
            return tuple(change for part in parts for change in self._fold(part))

    def tick(self, now: float, *, leads: bool) -> Effects:
        """End the wait of new nodes for their MIG layout."""
        return tuple(self._cluster.pass_time(self._wall()))

    def _fold(self, event: ev.Event) -> list[ev.Change]:
        try:
            return fold(self._cluster, event)
        except InvariantViolation:
            raise
        except Exception as problem:  # noqa: BLE001 - any fault belongs to this object
            about = about_event(event)
            number = self._contain.note("event", about, problem)
            return self._bare(event, about, f"internal error {number}", problem)

    def _bare(self, event: ev.Event, about: str, text: str, problem: Exception) -> list[ev.Change]:
        match event:
            case ev.PodUpdated(pod):
                event = ev.PodUpdated(_bare(pod, text))
            case ev.NodeUpdated(node):
                bare = Node(name=node.name, uid=node.uid, unschedulable=True, unread=text)
                event = ev.NodeUpdated(bare)
            case ev.PodDeleted() | ev.NodeDeleted() | ev.BindEnded():
                raise _broken(about, problem) from problem
            case _:
                return []  # it holds nothing on a node, so the former state stays
        try:
            return fold(self._cluster, event)
        except Exception as again:  # noqa: BLE001 - the bare object fails too
            raise _broken(about, again) from problem


def about_event(event: ev.Event) -> str:
    """The object of an event, for log lines."""
    match event:
        case ev.PodUpdated(pod):
            return f"pod {pod.key} (uid {pod.uid})"
        case ev.NodeUpdated(node):
            return f"node {node.name}"
        case ev.PodDeleted(uid) | ev.BindEnded(uid):
            return f"pod with uid {uid}"
        case ev.NodeDeleted(name):
            return f"node {name}"
    return type(event).__name__


def _bare(pod: Pod, text: str) -> Pod:
    """The pod without the fields that its author writes."""
    return msgspec.structs.replace(
        pod,
        labels={},
        annotations={},
        requests={},
        containers=(),
        host_ports=(),
        volumes=NO_VOLUMES,
        resource_claims=NO_CLAIMS,
        node_selector={},
        required_terms=None,
        preferred_terms=(),
        tolerations=(),
        unread=Unread(requests=text),
    )


def _broken(about: str, problem: Exception) -> InvariantViolation:
    return InvariantViolation(
        f"{about} cannot be added to the cluster state ({type(problem).__name__}:"
        f" {str(problem)[:200]}). The process ends, and the next one reads the whole state from the"
        f" API again; if that one ends here too, delete {about} and report this line"
    )
