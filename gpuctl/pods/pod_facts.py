"""Reads a pod and its events: needs no right beyond reading these two kinds.

The condition contains the reasons, the events the history, the annotations the assignment. If the
events cannot be read, the result contains a remark instead.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gpuctl.likely_mistakes import notices
from gpuctl.our_scheduler import OurScheduler
from gpuctl.targets import read_pod
from scheduler.decide.explain import Meaning, meaning_of
from scheduler.decide.rejection_message import parts
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.standing import Given, asks_of, given_of, standing_of
from scheduler.watch.client import ApiError, Client, Unreachable

EVENTS_MAX: Final = 20
OUR_DEFAULT: Final = OurScheduler()
FAILED: Final = "FailedScheduling"


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Encoded without empty fields."""


class Reason(_Shape, frozen=True, kw_only=True):
    """One part of the condition's message; ``count`` nodes refuse for it (0: the pod itself)."""

    text: str
    count: int = 0
    code: str = ""


class PodEvent(_Shape, frozen=True, kw_only=True):
    """One event about the pod."""

    time: str
    kind: str
    reason: str
    text: str
    source: str = ""
    count: int = 1
    decision: str = ""


class PodFacts(_Shape, frozen=True, kw_only=True):
    """The content of a pod's object and its events.

    ``asked`` is the time of the last known answer; ``notices`` are likely mistakes in the object.
    """

    namespace: str
    pod: str
    uid: str
    scheduler: str
    standing: str
    asks: dict[str, str] = {}
    since: str = ""
    asked: str = ""
    notices: tuple[str, ...] = ()
    node: str = ""
    message: str = ""
    reasons: tuple[Reason, ...] = ()
    codes: dict[str, Meaning] = {}
    given: Given = Given()
    gates: tuple[str, ...] = ()
    events: tuple[PodEvent, ...] = ()
    remarks: tuple[str, ...] = ()


async def read_pod_facts(
    client: Client, namespace: str, name: str, scheduler: OurScheduler = OUR_DEFAULT
) -> PodFacts:
    """Read a pod and its events; NotReached if the pod cannot be read."""
    pod = await read_pod(client, namespace, name)
    remarks: tuple[str, ...] = ()
    events: tuple[PodEvent, ...] = ()
    try:
        events = await _events(client, pod)
    except (ApiError, Unreachable) as error:
        remarks = (f"events cannot be read: {error}",)
    found = facts_of(pod, scheduler)
    asked = max((one.time for one in events if one.reason == FAILED), default="")
    asked = max(asked, found.asked)
    return msgspec.structs.replace(found, events=events, remarks=remarks, asked=asked)


def facts_of(pod: Pod, scheduler: OurScheduler = OUR_DEFAULT) -> PodFacts:
    """The facts in the pod's object, without events."""
    condition = pod.condition
    message = condition.message if condition.status == "False" else ""
    reasons = parts(message)
    return PodFacts(
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        scheduler=pod.scheduler_name,
        standing=standing_of(pod),
        asks=asks_of(pod),
        since=condition.since or pod.created,
        asked=condition.since if message else "",
        notices=notices(pod, scheduler),
        node=pod.node_name,
        message=message,
        reasons=tuple(
            Reason(text=part.text, count=part.count, code=part.code.name if part.code else "")
            for part in reasons
        ),
        codes={part.code.name: meaning_of(part.code) for part in reasons if part.code},
        given=given_of(pod),
        gates=pod.gates,
    )


async def _events(client: Client, pod: Pod) -> tuple[PodEvent, ...]:
    path = f"/api/v1/namespaces/{pod.namespace}/events"
    selector = f"involvedObject.name={pod.name},involvedObject.uid={pod.uid}"
    content = await client.request("GET", path, params={"fieldSelector": selector})
    items = msgspec.json.decode(content, type=dict[str, Any]).get("items") or ()
    events = sorted((_event(item) for item in items), key=lambda event: event.time)
    return tuple(events[-EVENTS_MAX:])


def _event(item: dict[str, Any]) -> PodEvent:
    series, meta = item.get("series") or {}, item.get("metadata") or {}
    source = item.get("source") or {}
    times = (series.get("lastObservedTime"), item.get("lastTimestamp"), item.get("eventTime"))
    return PodEvent(
        time=next((text for text in times if text), "") or meta.get("creationTimestamp") or "",
        kind=item.get("type") or "",
        reason=item.get("reason") or "",
        text=(item.get("message") or "").strip(),
        source=item.get("reportingComponent") or source.get("component") or "",
        count=series.get("count") or item.get("count") or 1,
        decision=(meta.get("annotations") or {}).get(well_known.DECISION, ""),
    )
