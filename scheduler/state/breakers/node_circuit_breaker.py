"""The circuit breaker of nodes: exponential backoff for a node that repeatedly rejects our pods.

A kubelet may reject a pod after its Binding: a device is broken, the allocations differ from ours,
or devices cannot be aligned. The pod fails, its controller creates another one, and the same node
fits best again::

    closed --3 rejections in 10 min--> open --backoff over-> half open --a pod is admitted--> closed
                                        ^---------------one rejection---'

Backoffs start with 30 s and double up to 30 min. They never end while a fifth rejection within ten
minutes would be possible. The scope of the avoidance is as narrow as the kubelet's reason and the
admissions allow (``state/breakers/kubelet_rejection``, ``state/breakers/circuit``).

Must never: count a failure that the pod itself caused. Otherwise any user could close nodes for
other users.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.state.breakers.circuit import Circuit, Timings, rejected_pod
from scheduler.state.breakers.kubelet_rejection import RejectionScope, about, covers, described
from scheduler.state.event import PastRejection

#: Maximum wait for the kubelet of a pod; its node becomes NotReady long before.
ADMISSION_WAIT_MAX_S = 600.0
#: Maximum wait for the reason of a deletion: three reads, 15 s each.
DELETION_WAIT_MAX_S = 60.0


class RecentBinding(msgspec.Struct):
    """A pod in flight; ``until`` is the end of the wait."""

    pod: Pod
    node_name: str
    until: float
    is_gone: bool = False


class RecentBindings:
    """Pods that were bound to a node and that its kubelet has neither admitted nor rejected yet.

    Known from our own placements and from the watch, so every replica knows them, and one that was
    started a moment ago too. A deleted pod keeps its place until it is clear why.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, RecentBinding] = {}
        self._by_node: dict[str, dict[str, RecentBinding]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> RecentBinding | None:
        """A pod in flight."""
        return self._by_uid.get(uid)

    def to(self, node_name: str) -> list[Pod]:
        """The pods in flight to a node."""
        return [one.pod for one in self._by_node.get(node_name, {}).values()]

    def add(self, pod: Pod, node_name: str, now: float) -> None:
        """A pod was bound to a node."""
        known = self._by_uid.get(pod.uid)
        if known is not None and known.node_name == node_name:
            return
        self.remove(pod.uid)
        one = self._by_uid[pod.uid] = RecentBinding(pod, node_name, now + ADMISSION_WAIT_MAX_S)
        self._by_node.setdefault(node_name, {})[pod.uid] = one

    def mark_deleted(self, uid: str, now: float) -> bool:
        """A pod was deleted; returns whether its node may have rejected it."""
        one = self._by_uid.get(uid)
        if one is None or one.is_gone:
            return False
        one.is_gone, one.until = True, now + DELETION_WAIT_MAX_S
        return True

    def remove(self, uid: str) -> RecentBinding | None:
        """The result for a pod is known."""
        one = self._by_uid.pop(uid, None)
        if one is not None:
            on_node = self._by_node[one.node_name]
            del on_node[uid]
            if not on_node:
                del self._by_node[one.node_name]
        return one

    def pass_time(self, now: float) -> None:
        """Remove pods after the maximum wait."""
        for uid in [uid for uid, one in self._by_uid.items() if now >= one.until]:
            self.remove(uid)

    def missing(self, present: set[str]) -> list[str]:
        """Pods that are missing from a whole list."""
        return [uid for uid in self._by_uid if uid not in present]


class TripEvent(msgspec.Struct, frozen=True):
    """A circuit opened."""

    node_name: str
    what: str
    pause_s: float
    scopes: frozenset[str] = frozenset()


class NodeCircuitBreaker:
    """The pods in flight to each node, and the avoided nodes with their scopes."""

    def __init__(self, timings: Timings | None = None) -> None:
        self.in_flight = RecentBindings()
        self._timings = timings or Timings()
        self._circuits: dict[str, dict[str, Circuit]] = {}

    def __len__(self) -> int:
        """Number of nodes in backoff."""
        return sum(
            any(one.is_open for one in circuits.values()) for circuits in self._circuits.values()
        )

    def suspects(self) -> list[str]:
        """The nodes with rejections that still count."""
        return list(self._circuits)

    def avoided(self, node_name: str, now: float) -> frozenset[str]:
        """The scopes for which a node is avoided."""
        circuits = self._circuits.get(node_name)
        if not circuits:
            return frozenset()
        in_flight = self.in_flight.to(node_name)
        scopes: set[str] = set()
        for scope, circuit in circuits.items():
            if circuit.is_open:
                scopes |= circuit.closes(now)
            count = sum(covers(scope, pod) for pod in in_flight)
            scopes |= circuit.limits(count, now)
        return frozenset(scopes)

    def record_binding(self, pod: Pod, node_name: str, now: float) -> None:
        """A pod was bound to a node and is in flight."""
        self.in_flight.add(pod, node_name, now)

    def record_admission(self, uid: str, now: float) -> None:
        """A kubelet admitted a pod: its node accepts similar pods."""
        one = self.in_flight.remove(uid)
        circuits = self._circuits.get(one.node_name) if one else None
        if one is None or not circuits:
            return
        for scope, circuit in circuits.items():
            if covers(scope, one.pod):
                circuit.record_admission(one.pod, now)

    def record_rejection(
        self, uid: str, reason: str, message: str, now: float, *, is_unconfirmed: bool = False
    ) -> TripEvent | None:
        """A node rejected a pod; returns the trip if this opens a circuit.

        ``is_unconfirmed`` if only an event says so: users of the namespace can write such events.
        """
        one = self.in_flight.remove(uid)
        return self._record_rejection(one, reason, message, now, is_unconfirmed) if one else None

    def restore(
        self, past: Iterable[PastRejection], now: float, *, is_unconfirmed: bool = False
    ) -> None:
        """Replay the rejections and admissions before the start of this process."""
        for one in sorted(past, key=lambda each: -each.age_s):
            at = now - one.age_s
            self._pass_time(at)
            bound = RecentBinding(one.pod, one.node_name, at)
            self._record_rejection(bound, one.reason, one.message, at, is_unconfirmed)
        self._pass_time(now)

    def forget_node(self, node_name: str) -> None:
        """A node was deleted; a new node of that name starts without rejections."""
        self._circuits.pop(node_name, None)

    def tick(self, now: float) -> list[str]:
        """Advance the time; returns the nodes with an expired backoff."""
        self.in_flight.pass_time(now)
        return self._pass_time(now)

    def _record_rejection(
        self, one: RecentBinding, reason: str, message: str, now: float, is_unconfirmed: bool
    ) -> TripEvent | None:
        what = about(one.pod, reason, message)
        if what is None:
            return None
        circuits = self._circuits.setdefault(one.node_name, {})
        if is_unconfirmed:
            what = self._class_scope(circuits, one.pod, what)
        circuit = circuits.get(what.scope)
        if circuit is None:
            circuit = circuits[what.scope] = Circuit(what.scope, what.is_stated, self._timings)
        pause_s = circuit.record_rejection(rejected_pod(one.pod, what, now), now)
        class_circuit = circuits.get(one.pod.class_id)
        if class_circuit is not None and class_circuit is not circuit:
            class_circuit.record_rejection(
                rejected_pod(one.pod, RejectionScope(one.pod.class_id), now), now
            )
        if pause_s is None:
            return None
        scopes = circuit.closes(now)
        return TripEvent(one.node_name, described(scopes), pause_s, scopes)

    def _class_scope(
        self, circuits: dict[str, Circuit], pod: Pod, what: RejectionScope
    ) -> RejectionScope:
        """Restrict a rejection to the class of this pod.

        Confirmed rejections count in the wider scope too.
        """
        if pod.class_id not in circuits:
            class_circuit = circuits[pod.class_id] = Circuit(pod.class_id, False, self._timings)
            known = circuits.get(what.scope)
            class_circuit.copy(known.of_class(pod.class_id) if known else [])
        return RejectionScope(pod.class_id)

    def _pass_time(self, now: float) -> list[str]:
        over: dict[str, None] = {}
        for node_name, circuits in list(self._circuits.items()):
            for scope, circuit in list(circuits.items()):
                if circuit.pass_time(now):
                    over[node_name] = None
                elif circuit.is_forgotten(now):
                    del circuits[scope]
            if not circuits:
                del self._circuits[node_name]
        return list(over)
