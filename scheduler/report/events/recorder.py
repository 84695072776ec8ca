"""Writes events and PodScheduled conditions, without repetition.

Texts and reasons are kube-scheduler's (``pkg/scheduler/schedule_one.go``,
``client-go/tools/events``). ``report/events/send_queue`` sends them in the background, so a
decision never waits for them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from datetime import datetime

import msgspec

from scheduler.model import actions, well_known
from scheduler.model.node import Node
from scheduler.model.pods.pod import Condition, Owner, Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.timestamps import micro_time, second_time
from scheduler.report.events.send_queue import RETRY_FIRST_S, Item, SendQueue
from scheduler.report.metrics import Metrics
from scheduler.watch.client import JSON, STRATEGIC_PATCH, Client

NOTE_BYTES_MAX = 1024
REPEAT_AFTER_S = 300.0
#: The namespace that the API server requires for events about objects without a namespace.
NAMESPACE_OF_NODES = "default"
REMEMBERED_MAX = 50_000


class Recorder:
    """Writes Events and PodScheduled conditions for one scheduler instance."""

    def __init__(
        self,
        client: Client,
        scheduler_name: str,
        instance: str,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        metrics: Metrics,
        idle: asyncio.Event,
        retry_first_s: float = RETRY_FIRST_S,
    ) -> None:
        self._name = scheduler_name
        self._instance = instance[:128]
        self._clock = clock
        self._wall = wall
        self._metrics = metrics
        self._queue = SendQueue(client, clock, metrics, idle, retry_first_s)
        #: By pod and reason: the last text, and the time of its event.
        self._recorded: dict[str, dict[str, tuple[str, float]]] = {}
        #: Pods with a node nominated here that is not withdrawn yet.
        self._nominated: set[str] = set()

    async def run(self) -> None:
        """Send until cancelled."""
        await self._queue.run()

    async def drain(self, timeout_s: float) -> None:
        """Wait until everything recorded is sent, as long as the timeout allows."""
        if not await self._queue.drain(timeout_s):
            self._metrics.reports.labels("event", "undelivered").inc()

    def record(self, action: actions.RecorderAction) -> None:
        """Record the action of a handler."""
        match action:
            case actions.RecordScheduled(pod, node_name, decision_id):
                self.scheduled(pod, node_name, decision_id)
            case actions.RecordUnscheduled(pod, message, reason, decision_id, node_name):
                self.failed(pod, message, reason, decision_id, node_name)
            case actions.RecordWaiting(pod, message, node_name):
                self.waits(pod, message, node_name)
            case actions.RecordPodEvent(pod, reason, text, kind, decision_id):
                self.note(pod, reason, text, kind, decision_id)
            case actions.RecordPreempted(pod, preemptor, node_name):
                self.preempted(pod, preemptor, node_name)
            case actions.RecordNodeEvent(node, reason, text):
                self.note_node(node, reason, text)
            case actions.RecordOwnerEvent(namespace, owner, reason, text):
                self.note_owner(namespace, owner, reason, text)
            case actions.DropCondition(uid):
                self.forget(uid)
            case actions.ForgetPod(uid):
                self.gone(uid)

    def scheduled(self, pod: Pod, node_name: str, decision_id: str = "") -> None:
        """The pod was bound."""
        note = f"Successfully assigned {pod.key} to {node_name}"
        self._event(pod, "Normal", "Scheduled", "Binding", note, decision_id)
        self.forget(pod.uid)
        self._nominated.discard(pod.uid)  # the API server withdraws it with the Binding

    def failed(
        self,
        pod: Pod,
        message: str,
        reason: str = ConditionReason.UNSCHEDULABLE,
        decision_id: str = "",
        waits_for: str = "",
    ) -> None:
        """The pod stays pending: an Event and the condition.

        ``waits_for`` is the node with future capacity for the pod: it becomes free, or creates MIG
        instances.
        """
        if self._is_news(pod, "FailedScheduling", message):
            self._event(pod, "Warning", "FailedScheduling", "Scheduling", message, decision_id)
        self._condition(pod, reason, message, waits_for)

    def waits(self, pod: Pod, message: str, node_name: str) -> None:
        """The pod is placed on a node that creates its MIG instances: the condition only."""
        self._condition(pod, ConditionReason.WAITING_FOR_CAPACITY, message, node_name)

    def note(
        self, pod: Pod, reason: str, text: str, kind: str = "Warning", decision_id: str = ""
    ) -> None:
        """An event on the pod."""
        if self._is_news(pod, reason, text):
            self._event(pod, kind, reason, "Scheduling", text, decision_id)

    def preempted(self, pod: Pod, preemptor: Pod, node_name: str) -> None:
        """The pod was deleted for a pod of higher priority."""
        text = f"Preempted by pod {preemptor.uid} on node {node_name}"
        about = _reference(pod)
        self._send_event(
            about, "Normal", "Preempted", "Preempting", text, "", related=_reference(preemptor)
        )

    def note_owner(self, namespace: str, owner: Owner, reason: str, text: str) -> None:
        """An event on the controller of a pod."""
        about = {
            "apiVersion": "batch/v1" if owner.kind == "Job" else "apps/v1",
            "kind": owner.kind,
            "name": owner.name,
            "namespace": namespace,
            "uid": owner.uid,
        }
        self._send_event(about, "Warning", reason, "Moving", text, "")

    def note_node(self, node: Node, reason: str, text: str) -> None:
        """An event on a node."""
        about = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
        self._send_event(about, "Warning", reason, "Scheduling", text, "")

    def forget(self, uid: str) -> None:
        """The pod is placed: an unsent condition is obsolete."""
        self._queue.drop_condition(uid)

    def gone(self, uid: str) -> None:
        """The pod was deleted."""
        self.forget(uid)
        self._nominated.discard(uid)
        self._recorded.pop(uid, None)

    def _is_news(self, pod: Pod, reason: str, text: str) -> bool:
        now = self._clock()
        about = self._recorded.get(pod.uid)
        last = about.get(reason) if about else None
        if last is not None and last[0] == text and now - last[1] < REPEAT_AFTER_S:
            return False
        if about is None:
            if len(self._recorded) >= REMEMBERED_MAX:
                self._recorded.pop(next(iter(self._recorded)))
            about = self._recorded[pod.uid] = {}
        about[reason] = (text, now)
        return True

    def _event(
        self, pod: Pod, kind: str, reason: str, action: str, note: str, decision_id: str
    ) -> None:
        self._send_event(_reference(pod), kind, reason, action, note, decision_id)

    def _send_event(
        self,
        about: dict[str, str],
        kind: str,
        reason: str,
        action: str,
        note: str,
        decision_id: str,
        related: dict[str, str] | None = None,
    ) -> None:
        stamp = micro_time(self._wall())
        namespace = about.get("namespace", NAMESPACE_OF_NODES)
        content = f"{about['uid']}/{reason}/{note}/{stamp}"
        digest = hashlib.blake2b(content.encode(), digest_size=8)
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": event_name(about["name"], digest.hexdigest()),
                "namespace": namespace,
                **({"annotations": {well_known.DECISION: decision_id}} if decision_id else {}),
            },
            "eventTime": stamp,
            "reportingController": self._name,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": about,
            **({"related": related} if related else {}),
            "note": truncated(note, NOTE_BYTES_MAX),
            "type": kind,
        }
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        self._queue.enqueue(
            Item(
                method="POST",
                path=path,
                body=msgspec.json.encode(body),
                content_type=JSON,
                since=self._clock(),
            )
        )

    def _condition(self, pod: Pod, reason: str, message: str, waits_for: str) -> None:
        known = self._queue.condition_of(pod.uid) or _shown(pod)
        if (known.status, known.reason, known.message, known.waits_for) == (
            "False",
            reason,
            message,
            waits_for,
        ):
            return
        kept = known.since if known.status == "False" else ""
        since = kept or second_time(self._wall())
        self._patch_condition(pod, Condition("False", reason, message, since, waits_for), known)

    def _patch_condition(self, pod: Pod, condition: Condition, known: Condition) -> None:
        entry = {
            "type": "PodScheduled",
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastProbeTime": None,
            "lastTransitionTime": condition.since,
        }
        status: dict[str, object] = {"conditions": [entry]}
        if condition.waits_for:
            status["nominatedNodeName"] = condition.waits_for
            self._nominated.add(pod.uid)
        elif known.waits_for or pod.uid in self._nominated:
            status["nominatedNodeName"] = None
            self._nominated.discard(pod.uid)
        body = {"metadata": {"uid": pod.uid}, "status": status}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        self._queue.enqueue(
            Item(
                method="PATCH",
                path=path,
                body=msgspec.json.encode(body),
                content_type=STRATEGIC_PATCH,
                since=self._clock(),
                uid=pod.uid,
                condition=condition,
            )
        )


def _shown(pod: Pod) -> Condition:
    """The condition that the watch shows, with the node that a scheduler replica nominated.

    A nomination with any other reason comes from another program and is not changed.
    """
    condition = pod.condition
    if condition.reason != ConditionReason.WAITING_FOR_CAPACITY:
        return condition
    return msgspec.structs.replace(condition, waits_for=pod.nominated_node)


def _reference(pod: Pod) -> dict[str, str]:
    """The object of an event."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
    }


def event_name(pod_name: str, digest: str) -> str:
    """A valid name for an event about a pod, whatever the length of the pod's name."""
    return f"{pod_name[:230].rstrip('-.')}.{digest}"


def truncated(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8; a cut text ends in " ...".

    >>> truncated("abcdefgh", 7)
    'abc ...'
    """
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 4].decode("utf-8", "ignore") + " ..."
