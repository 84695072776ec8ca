"""Between the breaker and the world: what it hears, what is avoided, and who is told.

The watch shows a pod that a kubelet refused as deleted, in its state before (failed pods are not
watched). So whoever vanishes right after we bound it, without ever having run, is looked up once;
the answer comes back through the inbox.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from scheduler.model.pod import Pod
from scheduler.report.metrics import Metrics
from scheduler.report.nodenotes import NodeNotes
from scheduler.report.recorder import Recorder
from scheduler.report.unreadnotes import UnreadNotes
from scheduler.state import event as ev
from scheduler.state.breaker import OUT_OF, WHOLE_NODE, Breaker
from scheduler.state.cluster import Cluster

log = structlog.get_logger("scheduler")


class Avoidance:
    """Keeps one cluster's nodes avoided as the breaker says; ``look_up`` must not block."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: Recorder,
        metrics: Metrics,
        look_up: Callable[[Pod], None],
    ) -> None:
        self.breaker = Breaker()
        self._cluster = cluster
        self._recorder = recorder
        self._metrics = metrics
        self._look_up = look_up
        self._notes = NodeNotes(recorder)
        self._unread = UnreadNotes(recorder, lambda kind: metrics.unreadable.labels(kind).inc())
        self._held: set[str] = set()

    def hold(self, node_name: str) -> None:
        """Let nobody go to a node, whatever its kubelet does, until it is released."""
        self._held.add(node_name)
        self._avoid(node_name)

    def release(self, node_name: str) -> list[ev.Change]:
        """The node is as good again as it would be without the hold."""
        self._held.discard(node_name)
        return self._avoid(node_name)

    def _avoid(self, node_name: str) -> list[ev.Change]:
        """The one place that says for whom a node is avoided."""
        held = frozenset((WHOLE_NODE,)) if node_name in self._held else frozenset()
        return self._cluster.avoid(node_name, self.breaker.avoided(node_name) | held)

    def hear(self, event: ev.Event, now: float) -> list[ev.Change]:
        """An event that is about to be folded."""
        self._notes.hear(event)
        self._unread.hear(event)
        match event:
            case ev.PodSeen(pod):
                if pod.phase == "Running":
                    self.breaker.runs(pod.uid)
            case ev.PodVanished(uid):
                gone = self._cluster.pods.get(uid)
                if gone is not None and self.breaker.is_suspect(gone, now):
                    self._look_up(gone)
            case ev.NodeVanished(name):
                self.breaker.gone(name)
            case ev.PodRejected():
                return self._rejected(event, now)
        return []

    def tick(self, now: float, leads: bool) -> list[ev.Change]:
        """Let time pass: pauses end, and who leads tells what is wrong with nodes."""
        if leads:
            self._notes.tell()
            self._unread.tell()
        changes: list[ev.Change] = []
        for node_name in self.breaker.tick(now):
            log.info("node is tried again", node=node_name)
            changes += self._avoid(node_name)
        self._metrics.avoided.set(len(self.breaker))
        return changes

    def _rejected(self, event: ev.PodRejected, now: float) -> list[ev.Change]:
        fresh = self.breaker.fresh(event.uid)
        if fresh is None:
            return []
        label = OUT_OF if event.reason.startswith(OUT_OF) else event.reason
        self._metrics.rejected_by_nodes.labels(label).inc()
        log.warning(
            "pod was rejected by its node",
            pod=fresh.pod.key,
            node=fresh.node_name,
            reason=event.reason,
            problem=event.message,
        )
        trip = self.breaker.rejected(event.uid, event.reason, event.message, now)
        if trip is None:
            return []
        text = (
            f"node {trip.node_name} rejected pods again and again, the last one with"
            f" {event.reason}: {trip.what} avoid it for {trip.pause_s:g} s"
        )
        log.warning("node is avoided", node=trip.node_name, pause_s=trip.pause_s)
        self._recorder.note(fresh.pod, "NodeAvoided", text)
        self._metrics.avoided.set(len(self.breaker))
        return self._avoid(trip.node_name)
