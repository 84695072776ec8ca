"""Applies the node circuit breaker: consumes events, marks nodes avoided, records events.

The watch shows a pod that a kubelet rejected as deleted, in its former state (failed pods are not
watched). So every pod that is deleted before a kubelet has admitted it is looked up once; the
result arrives as an event. Every replica maintains the breaker, so a new leader knows the
rejections.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.framework.decision import Placement
from scheduler.model.actions import LookUpPod, RecordPodEvent
from scheduler.model.pods.pod import Pod
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.breakers.circuit import Timings
from scheduler.state.breakers.deleted_pod_events import DeletedPodEvents
from scheduler.state.breakers.kubelet_rejection import OUT_OF, WHOLE_NODE, covers, stated_most
from scheduler.state.breakers.node_circuit_breaker import NodeCircuitBreaker, TripEvent
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import NOTHING, Effects

log = structlog.get_logger("scheduler")


class NodeAvoidance:
    """Marks the nodes of one cluster avoided as the breaker says; only the leader reports."""

    name = "node-avoidance"
    handles = (
        *(ev.PodUpdated, ev.PodDeleted, ev.PodsReplaced, ev.BindEnded, ev.NodeDeleted),
        *(ev.PodRejected, ev.PastRejectionsRead),
    )

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        gate: LeaderGate,
        timings: Timings | None = None,
    ) -> None:
        self.breaker = NodeCircuitBreaker(timings)
        self._cluster = cluster
        self._metrics = metrics
        self._gate = gate
        self._deleted_pods = DeletedPodEvents()
        self._closed: set[str] = set()
        self._now = 0.0

    # --- for the loop and other controllers --------------------------------------------------

    def close(self, node_name: str) -> None:
        """Place no pod on a node until it is reopened, independently of rejections."""
        self._closed.add(node_name)
        self._avoid(node_name)

    def reopen(self, node_name: str) -> list[ev.Change]:
        """Avoid the node only for the scopes of the breaker."""
        self._closed.discard(node_name)
        return self._avoid(node_name)

    def record_binding(self, pod: Pod, node_name: str, now: float) -> None:
        """A pod was placed: its kubelet has to admit it."""
        self._now = now
        self.breaker.record_binding(pod, node_name, now)
        self._avoid(node_name)

    def unless_avoided(self, placement: Placement | None) -> Placement | None:
        """A placement of a batch; None if its node has become avoided."""
        node_info = self._cluster.at(placement.node_name) if placement is not None else None
        if placement is None or node_info is None:
            return placement
        is_avoided = any(covers(scope, placement.pod) for scope in node_info.avoided)
        return None if is_avoided else placement

    def forget_pod(self, uid: str, now: float, *, is_admitted: bool = False) -> list[ev.Change]:
        """Stop waiting for the pod's admission."""
        self._now = now
        binding = self.breaker.in_flight.get(uid)
        if binding is None:
            return []
        if is_admitted:
            self.breaker.record_admission(uid, self._now)
        else:
            self.breaker.in_flight.remove(uid)
        return self._avoid(binding.node_name)

    def _avoid(self, node_name: str) -> list[ev.Change]:
        """Set the scopes of a node; no other code sets them."""
        closed = frozenset((WHOLE_NODE,)) if node_name in self._closed else frozenset()
        scopes = self.breaker.avoided(node_name, self._now) | closed
        return self._cluster.avoid(node_name, scopes)

    def _avoid_each(self, node_names: Iterable[str]) -> list[ev.Change]:
        return [change for name in node_names for change in self._avoid(name)]

    # --- events ------------------------------------------------------------------------------

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Follow the bound pods that no kubelet has admitted yet."""
        self._now = now
        match event:
            case ev.PodUpdated(pod):
                return tuple(self._upsert_pod(pod))
            case ev.PodDeleted(uid):
                return self._delete_pod(uid)
            case ev.PodsReplaced(pods):
                return self._replace_pods(pods)
            case ev.BindEnded(uid, outcome) if outcome is not ev.BindOutcome.BOUND:
                return tuple(self.forget_pod(uid, now))
            case ev.NodeDeleted(name):
                self.breaker.forget_node(name)
                return NOTHING
        return self._handle_rejections(event)

    def _handle_rejections(self, event: ev.Event) -> Effects:
        match event:
            case ev.PodRejected():
                return self._rejected(event)
            case ev.PastRejectionsRead():
                return tuple(self._restore(event))
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """End the expired backoffs."""
        self._now = now
        suspects = self.breaker.suspects()
        for node_name in self.breaker.tick(now):
            log.info("node no longer avoided", node=node_name)
        self._deleted_pods.pass_time(now)
        changes = self._avoid_each(suspects)
        self._metrics.avoided.set(len(self.breaker))
        return tuple(changes)

    def _upsert_pod(self, pod: Pod) -> list[ev.Change]:
        if pod.scheduler_name != self._cluster.scheduler_name:
            return []
        if not pod.node_name:
            return self._restore_for_owner(pod)
        if pod.phase != "Pending" or pod.is_admitted:
            return self.forget_pod(pod.uid, self._now, is_admitted=True)
        if pod.is_deleting:
            return self.forget_pod(pod.uid, self._now)
        # A pod whose author set nodeName has no such condition; its failure does not count.
        if pod.condition.status == "True":
            self.breaker.record_binding(pod, pod.node_name, self._now)
            return self._avoid(pod.node_name)
        return []

    def _delete_pod(self, uid: str) -> tuple[LookUpPod, ...]:
        binding = self.breaker.in_flight.get(uid)
        if binding is None or not self.breaker.in_flight.mark_deleted(uid, self._now):
            return ()
        return (LookUpPod(binding.pod),)

    def _replace_pods(self, pods: tuple[Pod, ...]) -> Effects:
        changes = [change for pod in pods for change in self._upsert_pod(pod)]
        present = {pod.uid for pod in pods}
        # A placed pod whose Binding is in flight is in the list, without a node.
        missing = self.breaker.in_flight.missing(present)
        return (*changes, *(action for uid in missing for action in self._delete_pod(uid)))

    # --- rejections --------------------------------------------------------------------------

    def _rejected(self, event: ev.PodRejected) -> Effects:
        binding = self.breaker.in_flight.get(event.uid)
        if binding is None:
            return NOTHING
        trip = self.breaker.record_rejection(
            event.uid, event.reason, event.message, self._now, is_unconfirmed=event.is_unconfirmed
        )
        log.warning(
            "pod rejected by kubelet",
            pod=binding.pod.key,
            node=binding.node_name,
            reason=event.reason,
            problem=event.message,
        )
        leads = self._gate.leads()
        if leads:
            label = OUT_OF if event.reason.startswith(OUT_OF) else event.reason
            self._metrics.rejected_by_nodes.labels(label).inc()
        changes = self._avoid(binding.node_name)
        if trip is None:
            return tuple(changes)
        log.warning("node avoided", node=trip.node_name, pause_s=trip.pause_s, by=trip.what)
        self._metrics.avoided.set(len(self.breaker))
        events = (_event(binding.pod, event.reason, trip),) if leads else ()
        return (*events, *changes)

    def _restore(self, past: ev.PastRejectionsRead) -> list[ev.Change]:
        self.breaker.restore(past.rejections, self._now)
        self._deleted_pods.record(past.deleted_pod_events, self._now)
        changes = self._avoid_each(self.breaker.suspects())
        if past.deleted_pod_events:
            for pod in list(self._cluster.pods.values()):
                if pod.waits_for(self._cluster.scheduler_name):
                    changes += self._restore_for_owner(pod)
        if past.rejections or past.deleted_pod_events:
            log.info(
                "past kubelet rejections read",
                pods=len(past.rejections),
                events=len(past.deleted_pod_events),
                nodes=len(self.breaker.suspects()),
            )
        return changes

    def _restore_for_owner(self, pod: Pod) -> list[ev.Change]:
        """Count the events about deleted pods that this pod replaces."""
        # Nearly always nothing was read.
        past = self._deleted_pods.matching(pod, self._now) if self._deleted_pods.events else []
        if not past:
            return []
        self.breaker.restore(past, self._now, is_unconfirmed=True)
        return self._avoid_each(dict.fromkeys(binding.node_name for binding in past))


def _event(pod: Pod, reason: str, trip: TripEvent) -> RecordPodEvent:
    stated = [most for most in map(stated_most, trip.scopes) if most is not None]
    if stated:
        resource, most = stated[0]
        begin = (
            f"the device plugin of node {trip.node_name} refuses more than {most} {resource} in"
            f" one container: request {most} in each container, or select another node"
        )
    else:
        begin = f"node {trip.node_name} rejected several pods, the last one with {reason}"
    text = f"{begin}: {trip.what} avoid it for {trip.pause_s:.0f} s"
    return RecordPodEvent(pod, "NodeAvoided", text)
