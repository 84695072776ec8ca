"""Events and conditions: what people see on the pod, each only when it is news.

Texts and reasons are kube-scheduler's (``pkg/scheduler/schedule_one.go``,
``client-go/tools/events``). How they travel is the matter of ``report/events/send_queue``; a
decision is never delayed by it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from datetime import datetime

import msgspec

from scheduler.model import well_known
from scheduler.model.condition_reason import ConditionReason
from scheduler.model.node import Node
from scheduler.model.pod import Condition, Owner, Pod
from scheduler.model.timestamps import micro_time, second_time
from scheduler.report.events.send_queue import RETRY_FIRST_S, Item, SendQueue
from scheduler.watch.client import JSON, STRATEGIC_PATCH, Client

NOTE_BYTES_MAX = 1024
REPEAT_AFTER_S = 300.0
#: Where the API server wants events about objects that have no namespace.
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
        count: Callable[[str, str], None],
        calm: asyncio.Event,
        retry_first_s: float = RETRY_FIRST_S,
    ) -> None:
        self._name = scheduler_name
        self._instance = instance[:128]
        self._clock = clock
        self._wall = wall
        self._count = count
        self._lane = SendQueue(client, clock, count, calm, self, retry_first_s)
        #: By pod and reason: the last text, and when it was said.
        self._said: dict[str, dict[str, tuple[str, float]]] = {}
        self._conditions: dict[str, Condition] = {}
        #: Pods for which a node was nominated here, and not taken back since.
        self._nominated: set[str] = set()

    async def run(self) -> None:
        """Send for ever; ends by cancellation."""
        await self._lane.run()

    async def drain(self, timeout_s: float) -> None:
        """Wait until what was recorded is sent, as long as the timeout allows."""
        if not await self._lane.drain(timeout_s):
            self._count("event", "undelivered")

    def scheduled(self, pod: Pod, node_name: str, decision_id: str = "") -> None:
        """The pod was bound."""
        note = f"Successfully assigned {pod.key} to {node_name}"
        self._event(pod, "Normal", "Scheduled", "Binding", note, decision_id)
        self.forget(pod.uid)
        self._nominated.discard(pod.uid)  # the API server takes it back with the Binding

    def failed(
        self,
        pod: Pod,
        message: str,
        reason: str = ConditionReason.UNSCHEDULABLE,
        decision_id: str = "",
        waits_for: str = "",
    ) -> None:
        """The pod stays pending: an Event and the condition, each only when it is news.

        ``waits_for`` is the node that becomes free for it, or is being cut for it.
        """
        if self._is_news(pod, "FailedScheduling", message):
            self._event(pod, "Warning", "FailedScheduling", "Scheduling", message, decision_id)
        self._condition(pod, reason, message, waits_for)

    def waits(self, pod: Pod, message: str, node_name: str) -> None:
        """The pod has a place on a node that is being cut for it: the condition only."""
        self._condition(pod, ConditionReason.WAITING_FOR_CAPACITY, message, node_name)

    def note(
        self, pod: Pod, reason: str, text: str, kind: str = "Warning", decision_id: str = ""
    ) -> None:
        """Something the pod's author should know."""
        if self._is_news(pod, reason, text):
            self._event(pod, kind, reason, "Scheduling", text, decision_id)

    def note_owner(self, namespace: str, owner: Owner, reason: str, text: str) -> None:
        """Something the author of a pod's owner should know."""
        about = {
            "apiVersion": "batch/v1" if owner.kind == "Job" else "apps/v1",
            "kind": owner.kind,
            "name": owner.name,
            "namespace": namespace,
            "uid": owner.uid,
        }
        self._send_event(about, "Warning", reason, "Moving", text, "")

    def note_node(self, node: Node, reason: str, text: str) -> None:
        """Something the owner of a node should know."""
        about = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
        self._send_event(about, "Warning", reason, "Scheduling", text, "")

    def forget(self, uid: str) -> None:
        """The pod is placed: its condition, if it was not sent yet, is true no more."""
        self._conditions.pop(uid, None)

    def gone(self, uid: str) -> None:
        """The pod is gone, and with it everything that was said."""
        self.forget(uid)
        self._nominated.discard(uid)
        self._said.pop(uid, None)

    def is_true(self, item: Item) -> bool:
        """Whether this is the condition that the pod should have."""
        return self._conditions.get(item.uid) is item.condition

    def unsaid(self, item: Item) -> None:
        """It did not arrive: the next attempt says it again."""
        self.forget(item.uid)

    def _is_news(self, pod: Pod, reason: str, text: str) -> bool:
        now = self._clock()
        about = self._said.get(pod.uid)
        said = about.get(reason) if about else None
        if said is not None and said[0] == text and now - said[1] < REPEAT_AFTER_S:
            return False
        if about is None:
            if len(self._said) >= REMEMBERED_MAX:
                self._said.pop(next(iter(self._said)))
            about = self._said[pod.uid] = {}
        about[reason] = (text, now)
        return True

    def _event(
        self, pod: Pod, kind: str, reason: str, action: str, note: str, decision_id: str
    ) -> None:
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
        }
        self._send_event(about, kind, reason, action, note, decision_id)

    def _send_event(
        self,
        about: dict[str, str],
        kind: str,
        reason: str,
        action: str,
        note: str,
        decision_id: str,
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
            "note": cut(note, NOTE_BYTES_MAX),
            "type": kind,
        }
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        self._lane.enqueue(
            Item(
                method="POST",
                path=path,
                body=msgspec.json.encode(body),
                content_type=JSON,
                since=self._clock(),
            )
        )

    def _condition(self, pod: Pod, reason: str, message: str, waits_for: str) -> None:
        known = self._conditions.get(pod.uid) or _shown(pod)
        told = (known.status, known.reason, known.message, known.waits_for)
        if told == ("False", reason, message, waits_for):
            return
        kept = known.since if known.status == "False" else ""
        since = kept or second_time(self._wall())
        self._patch_condition(pod, Condition("False", reason, message, since, waits_for), known)

    def _patch_condition(self, pod: Pod, condition: Condition, known: Condition) -> None:
        self._conditions[pod.uid] = condition
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
        self._lane.enqueue(
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
    """The condition that the watch shows, with the node that one of us nominated with it.

    A nomination beside any other reason comes from another program, and is left as it is.
    """
    condition = pod.condition
    if condition.reason != ConditionReason.WAITING_FOR_CAPACITY:
        return condition
    return msgspec.structs.replace(condition, waits_for=pod.nominated_node)


def event_name(pod_name: str, digest: str) -> str:
    """A name for an event about a pod: a valid one, however long the pod's is."""
    return f"{pod_name[:230].rstrip('-.')}.{digest}"


def cut(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8; a cut text ends in " ...".

    >>> cut("abcdefgh", 7)
    'abc ...'
    """
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 4].decode("utf-8", "ignore") + " ..."
