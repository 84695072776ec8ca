"""Collects the facts about pods from one list in pages: their number, neighbours, and waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from gpuctl.doctor.facts import Neighbour, PodsSeen, Waiting
from gpuctl.doctor.reader import Reader
from gpuctl.pods.pod_facts import facts_of
from scheduler.model import well_known
from scheduler.model.json_bounds import UNREADABLE
from scheduler.watch.decode.pods import POD, to_pod

ENDED: Final = ("Succeeded", "Failed")
#: A pod without an answer of the scheduler.
NO_ANSWER: Final = "NO_ANSWER"
#: What the scheduler answers without a code: the Binding waits for a step on the node.
NO_CODE: Final = "OTHER"


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    annotations: dict[str, str] | None = None
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


class _Resources(msgspec.Struct, frozen=True):
    #: The API server defaults the requests of devices from their limits.
    requests: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct, frozen=True):
    resources: _Resources = _Resources()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""
    node_name: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    scheduling_gates: tuple[msgspec.Raw, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec
    status: _Status = _Status()


_DECODER: Final = msgspec.json.Decoder(_Pod)


async def pods_seen(reader: Reader, scheduler: str, now: datetime) -> PodsSeen:
    """The pods of all namespaces, one page at a time."""
    seen = _Seen(scheduler, now)
    async for raw in reader.each("/api/v1/pods"):
        seen.add(raw)
    return seen.result()


class _Seen:
    """What the pods read so far have in sum."""

    def __init__(self, scheduler: str, now: datetime) -> None:
        self._scheduler = scheduler
        self._now = now
        self._count = 0
        self._strangers: list[str] = []
        self._held: Counter[tuple[str, str]] = Counter()  # scheduler, node
        self._codes: Counter[str] = Counter()
        self._oldest_s = 0.0

    def add(self, raw: msgspec.Raw) -> None:
        self._count += 1
        try:
            pod = _DECODER.decode(raw)
        except msgspec.MsgspecError:  # no pod that any scheduler can place
            return
        if pod.status.phase in ENDED:
            return
        spec = pod.spec
        if spec.scheduler_name == self._scheduler:
            self._add_own(pod, raw)
        elif spec.node_name and _has_gpus(spec):
            self._held[spec.scheduler_name or "no scheduler", spec.node_name] += 1

    def _add_own(self, pod: _Pod, raw: msgspec.Raw) -> None:
        meta, spec = pod.metadata, pod.spec
        if spec.node_name:
            if well_known.DECISION not in (meta.annotations or {}):
                self._strangers.append(f"{meta.namespace}/{meta.name}")
        elif meta.deletion_timestamp is None and not spec.scheduling_gates:
            self._codes[_code(raw)] += 1
            created = datetime.fromisoformat(meta.creation_timestamp)
            self._oldest_s = max(self._oldest_s, (self._now - created).total_seconds())

    def result(self) -> PodsSeen:
        names = sorted({scheduler for scheduler, _ in self._held})
        return PodsSeen(
            count=self._count,
            strangers=tuple(self._strangers),
            neighbours=tuple(self._neighbour(name) for name in names),
            waiting=Waiting(self._codes.total(), self._oldest_s, tuple(self._codes.most_common())),
        )

    def _neighbour(self, name: str) -> Neighbour:
        held = {node: count for (scheduler, node), count in self._held.items() if scheduler == name}
        return Neighbour(name, sum(held.values()), tuple(sorted(held)))


def _has_gpus(spec: _Spec) -> bool:
    containers = (*spec.containers, *spec.init_containers)
    return any(_gpus(one.resources.requests or {}) for one in containers)


def _gpus(requests: Mapping[str, object]) -> bool:
    return any(well_known.is_gpu_device(key) and str(requests[key]) != "0" for key in requests)


def _code(raw: msgspec.Raw) -> str:
    """The code of the reason that most nodes have."""
    try:
        found = facts_of(to_pod(POD.decode(raw)))
    except UNREADABLE:
        return NO_CODE
    if not found.message:
        return NO_ANSWER
    coded = [reason for reason in found.reasons if reason.code]
    return max(coded, key=lambda one: one.count).code if coded else NO_CODE
