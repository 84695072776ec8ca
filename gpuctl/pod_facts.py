"""What anybody who may read pods and events can learn about a pod: no rights beyond these.

The condition says why it waits, the events what happened, the annotations what it was given.
Events are a help, not a need: who may not read them is told so and gets the rest.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from gpuctl.cluster_access import NotReached
from scheduler.decide.explain import Meaning, meaning_of
from scheduler.decide.rejection_message import parts
from scheduler.model import well_known
from scheduler.model.pod import Pod
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.decode.pods import POD, to_pod

EVENTS_MAX: Final = 20
#: In which way a pod stands.
PLACED, WAITS, GATED, ENDED, GOES = "placed", "waits", "gated", "ended", "goes"


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Written without what is empty."""


class Reason(_Shape, frozen=True, kw_only=True):
    """One part of the condition's sentence; ``count`` nodes say it, or 0: it is about the pod."""

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


class Given(_Shape, frozen=True, kw_only=True):
    """What the pod's annotations say it was given; an empty text where they say nothing."""

    devices: str = ""
    index: str = ""
    cuda_visible_devices: str = ""
    fallback: str = ""
    original: str = ""
    memory: str = ""
    tier_nodes: str = ""
    decision: str = ""
    epoch: str = ""


class PodFacts(_Shape, frozen=True, kw_only=True):
    """A pod as its own object and its events tell it."""

    namespace: str
    pod: str
    uid: str
    scheduler: str
    standing: str
    since: str = ""
    node: str = ""
    message: str = ""
    reasons: tuple[Reason, ...] = ()
    codes: dict[str, Meaning] = {}
    given: Given = Given()
    gates: tuple[str, ...] = ()
    events: tuple[PodEvent, ...] = ()
    remarks: tuple[str, ...] = ()


async def witnessed(client: Client, namespace: str, name: str) -> PodFacts:
    """Read a pod and its events; NotReached when the pod cannot be read."""
    pod = await _pod(client, namespace, name)
    remarks: tuple[str, ...] = ()
    events: tuple[PodEvent, ...] = ()
    try:
        events = await _events(client, pod)
    except (ApiError, Unreachable) as error:
        remarks = (f"events cannot be read: {error}",)
    return msgspec.structs.replace(witness_of(pod), events=events, remarks=remarks)


def witness_of(pod: Pod) -> PodFacts:
    """What the pod's object alone tells."""
    condition = pod.condition
    message = condition.message if condition.status == "False" else ""
    found = parts(message)
    told = pod.annotations.get
    return PodFacts(
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        scheduler=pod.scheduler_name,
        standing=_standing(pod),
        since=condition.since or pod.created,
        node=pod.node_name,
        message=message,
        reasons=tuple(
            Reason(text=one.text, count=one.count, code=one.code.name if one.code else "")
            for one in found
        ),
        codes={one.code.name: meaning_of(one.code) for one in found if one.code},
        given=Given(
            devices=told(well_known.DEVICES, ""),
            index=told(well_known.POD_INDEX, ""),
            cuda_visible_devices=told(well_known.CUDA_VISIBLE_DEVICES, ""),
            fallback=told(well_known.FALLBACK, ""),
            original=told(well_known.ORIGINAL, ""),
            memory=told(well_known.MEMORY_GIVEN, ""),
            tier_nodes=told(well_known.TIER_NODES, ""),
            decision=told(well_known.DECISION, ""),
            epoch=told(well_known.EPOCH, ""),
        ),
        gates=pod.gates,
    )


def _standing(pod: Pod) -> str:
    if pod.is_terminal:
        return ENDED
    if pod.is_deleting:
        return GOES
    if pod.node_name:
        return PLACED
    return GATED if pod.gates else WAITS


async def _pod(client: Client, namespace: str, name: str) -> Pod:
    try:
        content = await client.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        return to_pod(POD.decode(content))
    except ApiError as error:
        raise NotReached(error.message or str(error)) from error
    except (Unreachable, msgspec.MsgspecError) as error:
        raise NotReached(f"the API server: {error}") from error


async def _events(client: Client, pod: Pod) -> tuple[PodEvent, ...]:
    path = f"/api/v1/namespaces/{pod.namespace}/events"
    selector = f"involvedObject.name={pod.name},involvedObject.uid={pod.uid}"
    content = await client.request("GET", path, params={"fieldSelector": selector})
    items = msgspec.json.decode(content, type=dict[str, Any]).get("items") or ()
    found = sorted((_happening(item) for item in items), key=lambda one: one.time)
    return tuple(found[-EVENTS_MAX:])


def _happening(item: dict[str, Any]) -> PodEvent:
    series, meta = item.get("series") or {}, item.get("metadata") or {}
    source = item.get("source") or {}
    moments = (series.get("lastObservedTime"), item.get("lastTimestamp"), item.get("eventTime"))
    return PodEvent(
        time=next((text for text in moments if text), "") or meta.get("creationTimestamp") or "",
        kind=item.get("type") or "",
        reason=item.get("reason") or "",
        text=(item.get("message") or "").strip(),
        source=item.get("reportingComponent") or source.get("component") or "",
        count=series.get("count") or item.get("count") or 1,
        decision=(meta.get("annotations") or {}).get(well_known.DECISION, ""),
    )


def age(moment: str, now: datetime) -> str:
    """How long ago a moment of Kubernetes was, as kubectl says it; empty for no moment.

    >>> age("2026-11-27T10:00:00Z", datetime.fromisoformat("2026-11-27T12:05:00Z"))
    '2h5m'
    """
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return ""
    seconds = max(0, int((now - then).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if hours < 2:
        return f"{minutes}m"
    if days < 2:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d"
