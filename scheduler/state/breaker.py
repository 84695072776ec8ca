"""Nodes that reject our pods again and again are avoided for a while, with growing pauses.

A kubelet may refuse a pod that was bound to it: a device is broken, its books differ from ours,
devices cannot be aligned. The pod fails, its controller makes another one, the same node fits
best again::

    closed --3 rejections in a minute--> open --pause over--> half open --a pod runs--> closed
                                           ^---------------one rejection---'

Pauses are 30 s, doubling up to 30 min. What is avoided is as narrow as the kubelet's reason: one
resource of the node, pods that ask for the same, or the whole node.

Must never: count what a pod brought upon itself. Anybody could then close nodes for others.
"""

from __future__ import annotations

from collections import deque

import msgspec

from scheduler.model import names
from scheduler.model.pod import Pod

REJECTIONS_MAX = 3
WINDOW_S = 60.0
PAUSE_FIRST_S = 30.0
PAUSE_MAX_S = 1800.0
#: A circuit without rejections for so long after its pause is forgotten.
CALM_S = 3600.0
#: How long after its Binding a pod's failure is the node's answer.
FRESH_S = 60.0

WHOLE_NODE = ""
OUT_OF = "OutOf"
#: Why a kubelet may refuse a pod (``pkg/kubelet/lifecycle``, ``cm/topologymanager``).
KIND_REASONS = frozenset(
    ("UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "NodePorts", "NodeName")
)
NODE_REASONS = frozenset(("OutOfpods", "NodeShutdown"))


class Fresh(msgspec.Struct, frozen=True):
    """A pod that we bound a moment ago."""

    pod: Pod
    node_name: str
    at: float


class Circuit(msgspec.Struct):
    """One scope of one node: when it rejected pods, how often it was opened, and until when."""

    rejected_at: deque[float]
    trips: int = 0
    until: float = 0.0
    is_open: bool = False


class Trip(msgspec.Struct, frozen=True):
    """A circuit was opened."""

    node_name: str
    what: str
    pause_s: float


class Breaker:
    """Who was bound lately, and which nodes are avoided by whom."""

    def __init__(self) -> None:
        self._fresh: dict[str, Fresh] = {}
        self._circuits: dict[str, dict[str, Circuit]] = {}

    def __len__(self) -> int:
        """Number of nodes that are avoided by somebody."""
        return sum(1 for name in self._circuits if self.avoided(name))

    def avoided(self, node_name: str) -> frozenset[str]:
        """The scopes for which a node is avoided."""
        circuits = self._circuits.get(node_name, {})
        return frozenset(scope for scope, circuit in circuits.items() if circuit.is_open)

    def bound(self, pod: Pod, node_name: str, now: float) -> None:
        """We bound a pod."""
        self._fresh[pod.uid] = Fresh(pod, node_name, now)

    def fresh(self, uid: str) -> Fresh | None:
        """A pod that we bound a moment ago."""
        return self._fresh.get(uid)

    def is_suspect(self, pod: Pod, now: float) -> bool:
        """Whether this pod, which is just gone, may have been refused by its node."""
        fresh = self._fresh.get(pod.uid)
        return (
            fresh is not None
            and now - fresh.at < FRESH_S
            and pod.phase == "Pending"
            and not pod.is_deleting
        )

    def runs(self, uid: str) -> None:
        """A pod that we bound runs: its node is good for pods like it."""
        fresh = self._fresh.pop(uid, None)
        circuits = self._circuits.get(fresh.node_name) if fresh else None
        if fresh is None or circuits is None:
            return
        for scope in (WHOLE_NODE, fresh.pod.kind_id, *fresh.pod.requests):
            circuit = circuits.get(scope)
            if circuit is not None and not circuit.is_open:
                del circuits[scope]
        if not circuits:
            del self._circuits[fresh.node_name]

    def rejected(self, uid: str, reason: str, message: str, now: float) -> Trip | None:
        """A node refused a pod; the trip, if that was once too often."""
        fresh = self._fresh.pop(uid, None)
        scope = _scope(fresh.pod, reason, message) if fresh else None
        if fresh is None or scope is None:
            return None
        circuits = self._circuits.setdefault(fresh.node_name, {})
        circuit = circuits.setdefault(scope, Circuit(deque(maxlen=REJECTIONS_MAX)))
        circuit.rejected_at.append(now)
        oldest = circuit.rejected_at[0]
        often = len(circuit.rejected_at) == REJECTIONS_MAX and now - oldest <= WINDOW_S
        if circuit.is_open or not (often or circuit.trips):
            return None
        pause_s = min(PAUSE_MAX_S, PAUSE_FIRST_S * 2 ** min(circuit.trips, 10))
        circuit.trips, circuit.until, circuit.is_open = circuit.trips + 1, now + pause_s, True
        return Trip(fresh.node_name, _described(scope), pause_s)

    def gone(self, node_name: str) -> None:
        """A node was deleted; one that comes again begins afresh."""
        self._circuits.pop(node_name, None)

    def tick(self, now: float) -> list[str]:
        """Let time pass; the nodes with a pause that is over."""
        for uid in [uid for uid, fresh in self._fresh.items() if now - fresh.at >= FRESH_S]:
            del self._fresh[uid]
        over: dict[str, None] = {}
        for node_name, circuits in list(self._circuits.items()):
            for scope, circuit in list(circuits.items()):
                if circuit.is_open and now >= circuit.until:
                    circuit.is_open = False
                    circuit.rejected_at.clear()
                    over[node_name] = None
                elif not circuit.is_open and now - _last(circuit) >= CALM_S:
                    del circuits[scope]
            if not circuits:
                del self._circuits[node_name]
        return list(over)


def _last(circuit: Circuit) -> float:
    return max((circuit.until, *circuit.rejected_at))


def _scope(pod: Pod, reason: str, message: str) -> str | None:
    """Whom the node should be spared: as few as the kubelet's reason allows; None for nobody."""
    if reason in NODE_REASONS:
        return WHOLE_NODE
    if reason.startswith(OUT_OF):
        resource = reason.removeprefix(OUT_OF)
        return resource if pod.requests.get(resource) else None
    if reason not in KIND_REASONS:
        return None
    # The device manager names the resource that it could not give.
    named = (r for r in pod.requests if names.is_gpu_device(r) and r in message)
    return next(named, pod.kind_id)


def _described(scope: str) -> str:
    if scope == WHOLE_NODE:
        return "all pods"
    return "pods that ask for the same" if scope.startswith("kind/") else f"pods with {scope}"
