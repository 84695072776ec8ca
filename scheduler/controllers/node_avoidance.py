"""Between the breaker and the world: what it hears, what is avoided, and who is told.

The watch shows a pod that a kubelet refused as deleted, in its state before (failed pods are not
watched). So whoever vanishes before a kubelet has admitted it is looked up once; the answer comes
back through the inbox. Every replica listens, so that none begins to lead without knowing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from scheduler.framework.decision import Placement
from scheduler.model.pod import Pod
from scheduler.report.events.node_events import NodeEvents
from scheduler.report.events.recorder import Recorder
from scheduler.report.events.unreadable_events import UnreadableEvents
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.breakers.circuit import Timings
from scheduler.state.breakers.deleted_pod_events import DeletedPodEvents
from scheduler.state.breakers.kubelet_rejection import OUT_OF, WHOLE_NODE, covers, stated_most
from scheduler.state.breakers.node_circuit_breaker import NodeCircuitBreaker, TripEvent
from scheduler.state.cache.cluster import Cluster

log = structlog.get_logger("scheduler")


class Leadership(Protocol):
    """Whether this process may decide now."""

    def leads(self) -> bool:
        """Asked before every decision."""


class NodeAvoidance:
    """Keeps one cluster's nodes avoided as the breaker says; ``look_up`` must not block.

    Only the leader counts and tells.
    """

    def __init__(
        self,
        cluster: Cluster,
        recorder: Recorder,
        metrics: Metrics,
        look_up: Callable[[Pod], None],
        leadership: Leadership,
        timings: Timings | None = None,
    ) -> None:
        self.breaker = NodeCircuitBreaker(timings)
        self._cluster = cluster
        self._recorder = recorder
        self._metrics = metrics
        self._look_up = look_up
        self._leads = leadership.leads
        self._notes = NodeEvents(recorder)
        self._unread = UnreadableEvents(
            recorder, lambda kind: metrics.unreadable.labels(kind).inc()
        )
        self._rumours = DeletedPodEvents()
        self._held: set[str] = set()
        self._now = 0.0

    def hold(self, node_name: str) -> None:
        """Let nobody go to a node, whatever its kubelet does, until it is released."""
        self._held.add(node_name)
        self._avoid(node_name)

    def release(self, node_name: str) -> list[ev.Change]:
        """The node is as good again as it would be without the hold."""
        self._held.discard(node_name)
        return self._avoid(node_name)

    def record_binding(self, pod: Pod, node_name: str, now: float) -> None:
        """A pod was placed: from now on it is on its way to the node."""
        self._now = now
        self.breaker.record_binding(pod, node_name, now)
        self._avoid(node_name)

    def unless_avoided(self, found: Placement | None) -> Placement | None:
        """A place that was found for several pods at once, unless the node is avoided by now."""
        node_info = self._cluster.at(found.node_name) if found is not None else None
        if found is None or node_info is None:
            return found
        return None if any(covers(scope, found.pod) for scope in node_info.avoided) else found

    def _avoid(self, node_name: str) -> list[ev.Change]:
        """The one place that says for whom a node is avoided."""
        held = frozenset((WHOLE_NODE,)) if node_name in self._held else frozenset()
        scopes = self.breaker.avoided(node_name, self._now) | held
        return self._cluster.avoid(node_name, scopes)

    def handle(self, event: ev.Event, now: float) -> list[ev.Change]:
        """An event that is about to be folded."""
        self._now = now
        self._notes.handle(event)
        self._unread.handle(event)
        match event:
            case ev.PodUpdated(pod):
                return self._seen(pod)
            case ev.PodDeleted(uid):
                self._vanished(uid)
            case ev.PodsReplaced(pods):
                return self._listed(pods)
            case ev.BindEnded(uid, outcome) if outcome is not ev.BindOutcome.BOUND:
                return self.forget_pod(uid)
            case ev.NodeDeleted(name):
                self.breaker.forget_node(name)
            case ev.PodRejected():
                return self._rejected(event)
            case ev.PastRejectionsRead():
                return self._recall(event)
        return []

    def tick(self, now: float, leads: bool) -> list[ev.Change]:
        """Let time pass: pauses end, and who leads tells what is wrong with nodes."""
        self._now = now
        if leads:
            self._notes.report()
            self._unread.report()
        suspects = self.breaker.suspects()
        for node_name in self.breaker.tick(now):
            log.info("node is tried again", node=node_name)
        self._rumours.pass_time(now)
        changes = self._avoid_each(suspects)
        self._metrics.avoided.set(len(self.breaker))
        return changes

    def _avoid_each(self, node_names: Iterable[str]) -> list[ev.Change]:
        return [change for name in node_names for change in self._avoid(name)]

    # --- pods on their way -------------------------------------------------------------------

    def _seen(self, pod: Pod) -> list[ev.Change]:
        if pod.scheduler_name != self._cluster.scheduler_name:
            return []
        if not pod.node_name:
            return self._rumoured(pod)
        if pod.phase != "Pending" or pod.is_admitted:
            return self.forget_pod(pod.uid, is_admitted=True)
        if pod.is_deleting:
            return self.forget_pod(pod.uid)
        # A pod whose author named the node has no such condition: its failure is its own.
        if pod.condition.status == "True":
            self.breaker.record_binding(pod, pod.node_name, self._now)
            return self._avoid(pod.node_name)
        return []

    def forget_pod(self, uid: str, *, is_admitted: bool = False) -> list[ev.Change]:
        """A pod is not on its way any more, and was not refused."""
        one = self.breaker.under_way.get(uid)
        if one is None:
            return []
        if is_admitted:
            self.breaker.record_admission(uid, self._now)
        else:
            self.breaker.under_way.remove(uid)
        return self._avoid(one.node_name)

    def _vanished(self, uid: str) -> None:
        one = self.breaker.under_way.get(uid)
        if one is not None and self.breaker.under_way.mark_deleted(uid, self._now):
            self._look_up(one.pod)

    def _listed(self, pods: tuple[Pod, ...]) -> list[ev.Change]:
        changes: list[ev.Change] = []
        for pod in pods:
            changes += self._seen(pod)
        present = {pod.uid for pod in pods}
        for uid in self.breaker.under_way.missing(present):
            # What was placed and not bound yet is in the list, without a node.
            self._vanished(uid)
        return changes

    # --- refusals ----------------------------------------------------------------------------

    def _rejected(self, event: ev.PodRejected) -> list[ev.Change]:
        bound = self.breaker.under_way.get(event.uid)
        if bound is None:
            return []
        trip = self.breaker.record_rejection(
            event.uid, event.reason, event.message, self._now, is_hearsay=event.is_hearsay
        )
        log.warning(
            "pod was rejected by its node",
            pod=bound.pod.key,
            node=bound.node_name,
            reason=event.reason,
            problem=event.message,
        )
        if self._leads():
            label = OUT_OF if event.reason.startswith(OUT_OF) else event.reason
            self._metrics.rejected_by_nodes.labels(label).inc()
        if trip is not None:
            self._tell(bound.pod, event.reason, trip)
        return self._avoid(bound.node_name)

    def _tell(self, pod: Pod, reason: str, trip: TripEvent) -> None:
        log.warning("node is avoided", node=trip.node_name, pause_s=trip.pause_s, by=trip.what)
        self._metrics.avoided.set(len(self.breaker))
        if not self._leads():
            return
        stated = [most for most in map(stated_most, trip.scopes) if most is not None]
        if stated:
            resource, most = stated[0]
            begin = (
                f"the device plugin of node {trip.node_name} refuses more than {most} {resource} in"
                f" one container: ask for {most} in each container, or for another node"
            )
        else:
            begin = (
                f"node {trip.node_name} rejected pods again and again, the last one with {reason}"
            )
        text = f"{begin}: {trip.what} avoid it for {trip.pause_s:.0f} s"
        self._recorder.note(pod, "NodeAvoided", text)

    def _recall(self, told: ev.PastRejectionsRead) -> list[ev.Change]:
        self.breaker.restore(told.refusals, self._now)
        self._rumours.record(told.hearsay, self._now)
        changes = self._avoid_each(self.breaker.suspects())
        if told.hearsay:
            for pod in list(self._cluster.pods.values()):
                if pod.waits_for(self._cluster.scheduler_name):
                    changes += self._rumoured(pod)
        if told.refusals or told.hearsay:
            log.info(
                "refusals of before are remembered",
                pods=len(told.refusals),
                events=len(told.hearsay),
                nodes=len(self.breaker.suspects()),
            )
        return changes

    def _rumoured(self, pod: Pod) -> list[ev.Change]:
        """What events say about pods of which this one takes the place."""
        past = self._rumours.matching(pod, self._now)
        if not past:
            return []
        self.breaker.restore(past, self._now, is_hearsay=True)
        return self._avoid_each(dict.fromkeys(one.node_name for one in past))
