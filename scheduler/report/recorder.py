"""Events and conditions: what people see on the pod.

A lane of its own behind the Bindings: bounded, several workers, and whatever cannot be
sent is counted and dropped. It never delays a decision, and while Bindings are in flight it
waits for them, but for no longer than ``HOLD_MAX_S``. Texts and reasons are
kube-scheduler's (``pkg/scheduler/schedule_one.go``, ``client-go/tools/events``).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable
from datetime import datetime

import msgspec

from scheduler.model import names
from scheduler.model.pod import Condition, Pod
from scheduler.watch.client import JSON, STRATEGIC_PATCH, ApiError, Client, Unreachable

QUEUE_MAX = 20_000
WORKERS = 16
NOTE_BYTES_MAX = 1024
HOLD_MAX_S = 10.0
REPEAT_AFTER_S = 300.0
REMEMBERED_MAX = 50_000


class _Item(msgspec.Struct, frozen=True):
    method: str
    path: str
    body: bytes
    content_type: str
    since: float
    uid: str
    condition: Condition | None = None


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
    ) -> None:
        self._client = client
        self._name = scheduler_name
        self._instance = instance[:128]
        self._clock = clock
        self._wall = wall
        self._count = count
        self._calm = calm
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(QUEUE_MAX)
        self._said: dict[tuple[str, str], tuple[str, float]] = {}
        self._conditions: dict[str, Condition] = {}

    async def run(self) -> None:
        """Send for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"recorder {number}")

    async def drain(self, timeout_s: float) -> None:
        """Wait until what was recorded is sent, as long as the timeout allows."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._queue.join()
        except TimeoutError:
            self._count("event", "undelivered")

    def scheduled(self, pod: Pod, node_name: str, decision_id: str = "") -> None:
        """The pod was bound."""
        note = f"Successfully assigned {pod.key} to {node_name}"
        self._event(pod, "Normal", "Scheduled", "Binding", note, decision_id)
        self._conditions.pop(pod.uid, None)

    def failed(
        self, pod: Pod, message: str, reason: str = "Unschedulable", decision_id: str = ""
    ) -> None:
        """The pod stays pending: an Event and the condition, each only when it is news."""
        if self._is_news(pod, "FailedScheduling", message):
            self._event(pod, "Warning", "FailedScheduling", "Scheduling", message, decision_id)
        known = self._conditions.get(pod.uid, pod.condition)
        if (known.status, known.reason, known.message) != ("False", reason, message):
            kept = known.since if known.status == "False" else ""
            since = kept or second_time(self._wall())
            self._patch_condition(pod, Condition("False", reason, message, since))

    def note(
        self, pod: Pod, reason: str, text: str, kind: str = "Warning", decision_id: str = ""
    ) -> None:
        """Something the pod's author should know."""
        if self._is_news(pod, reason, text):
            self._event(pod, kind, reason, "Scheduling", text, decision_id)

    def forget(self, uid: str) -> None:
        """The pod is placed or gone: what was said of it, and not sent yet, is true no more."""
        self._conditions.pop(uid, None)

    def _is_news(self, pod: Pod, reason: str, text: str) -> bool:
        now = self._clock()
        key = (pod.uid, reason)
        said = self._said.get(key)
        if said is not None and said[0] == text and now - said[1] < REPEAT_AFTER_S:
            return False
        if len(self._said) >= REMEMBERED_MAX:
            self._said.pop(next(iter(self._said)))
        self._said.pop(key, None)
        self._said[key] = (text, now)
        return True

    def _event(
        self, pod: Pod, kind: str, reason: str, action: str, note: str, decision_id: str
    ) -> None:
        stamp = micro_time(self._wall())
        digest = hashlib.blake2b(f"{pod.uid}/{reason}/{note}/{stamp}".encode(), digest_size=8)
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": event_name(pod.name, digest.hexdigest()),
                "namespace": pod.namespace,
                **({"annotations": {names.DECISION: decision_id}} if decision_id else {}),
            },
            "eventTime": stamp,
            "reportingController": self._name,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
            },
            "note": cut(note, NOTE_BYTES_MAX),
            "type": kind,
        }
        path = f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events"
        self._put(
            "event",
            _Item("POST", path, msgspec.json.encode(body), JSON, self._clock(), pod.uid),
        )

    def _patch_condition(self, pod: Pod, condition: Condition) -> None:
        self._conditions[pod.uid] = condition
        entry = {
            "type": "PodScheduled",
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastProbeTime": None,
            "lastTransitionTime": condition.since,
        }
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [entry]}}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        content, now = msgspec.json.encode(body), self._clock()
        item = _Item("PATCH", path, content, STRATEGIC_PATCH, now, pod.uid, condition)
        self._put("condition", item)

    def _put(self, what: str, item: _Item) -> None:
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            self._unsaid(item)
            self._count(what, "dropped")

    def _unsaid(self, item: _Item) -> None:
        """It did not arrive: the next attempt says it again."""
        if item.condition is not None and self._conditions.get(item.uid) is item.condition:
            del self._conditions[item.uid]

    async def _hold(self, item: _Item) -> None:
        """Let Bindings go first: they start pods, this only tells about them."""
        left_s = item.since + HOLD_MAX_S - self._clock()
        if not self._calm.is_set() and left_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._calm.wait()

    async def _work(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                await self._hold(item)
                result = await self._send(item)
            finally:
                self._queue.task_done()
            if result != "sent":
                self._unsaid(item)
            self._count("event" if item.condition is None else "condition", result)

    async def _send(self, item: _Item) -> str:
        """Send one item; the word for the metric."""
        if item.condition is not None and self._conditions.get(item.uid) is not item.condition:
            return "stale"  # the pod was placed meanwhile, and is not unschedulable any more
        try:
            await self._client.request(
                item.method, item.path, item.body, content_type=item.content_type
            )
        except ApiError as error:
            return "gone" if _is_gone(error) else "refused"
        except Unreachable:
            return "unreachable"
        return "sent"


def _is_gone(error: ApiError) -> bool:
    """Whether the pod or its namespace is gone, so that nobody is left to read it."""
    return error.status in (404, 409) or (
        error.status == 403 and "being terminated" in error.message
    )


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


def micro_time(moment: datetime) -> str:
    """A moment (UTC) as a Kubernetes MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def second_time(moment: datetime) -> str:
    """A moment (UTC) as a Kubernetes Time."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
