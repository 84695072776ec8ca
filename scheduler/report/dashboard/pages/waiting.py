"""The page of the waiting pods: what blocks them, in what order, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from scheduler.decide.rejection_message import parts
from scheduler.decide.remedy.concerned_objects import ConcernedObjects, of_message
from scheduler.plugins import REASON_CODES
from scheduler.report.dashboard.pages.page import NEW, Shape, meaning
from scheduler.report.dashboard.pages.waiting_sums import WaitingSum, owner_of, waiting_sums
from scheduler.report.wall_times import LoopTimes
from scheduler.state.capacity.node_devices import Amounts, requested_by
from scheduler.state.parts import Parts
from scheduler.state.queue.position import first, in_slices
from scheduler.state.queue.scheduling_queue import QueuedPodInfo

PODS_MAX: Final = 1_000
OWNERS_MAX: Final = 200
REASON_LENGTH_MAX: Final = 400


class WaitingPod(Shape, frozen=True, kw_only=True):
    """A waiting pod. ``position`` counts from 1 in the order of the queue, without backoff.

    ``reason`` is the message of its last decision, ``help`` the next step of its code.
    """

    position: int
    namespace: str
    pod: str
    owner: str
    asks: Amounts
    priority: int
    since: str
    place: str
    attempts: int
    next_try: str | None
    code: str
    reason: str
    help: str


class ReasonGroup(Shape, frozen=True, kw_only=True):
    """The pods that wait for one reason."""

    code: str
    meaning: str
    help: str
    pods: int
    devices: Amounts
    oldest: str


class OwnerGroup(Shape, frozen=True, kw_only=True):
    """The pods of one owner that wait; the bare pods of a namespace are one group."""

    namespace: str
    owner: str
    pods: int
    devices: Amounts
    oldest: str
    codes: dict[str, int]


class WaitingPage(Shape, frozen=True, kw_only=True):
    """All that wait: the first pods in their order, and the sums of every one."""

    total: int
    left_out: int
    pods: tuple[WaitingPod, ...]
    by_reason: tuple[ReasonGroup, ...]
    by_owner: tuple[OwnerGroup, ...]
    by_owner_left_out: int


def waiting_page(entries: Sequence[QueuedPodInfo], times: LoopTimes) -> Parts[WaitingPage]:
    """The page of these pods."""
    sums = yield from waiting_sums(entries)
    pods: list[WaitingPod] = []
    for part in in_slices((yield from first(entries, PODS_MAX))):
        pods += [_pod(entry, at, times) for at, entry in enumerate(part, len(pods) + 1)]
        yield len(part)
    owners = sums.owners()
    return WaitingPage(
        total=len(entries),
        left_out=len(entries) - len(pods),
        pods=tuple(pods),
        by_reason=tuple(_reason(code, one, times) for code, one in sums.codes()),
        by_owner=tuple(_owner(key, one, times) for key, one in owners[:OWNERS_MAX]),
        by_owner_left_out=max(0, len(owners) - OWNERS_MAX),
    )


def _pod(entry: QueuedPodInfo, position: int, times: LoopTimes) -> WaitingPod:
    pod = entry.pod
    return WaitingPod(
        position=position,
        namespace=pod.namespace,
        pod=pod.name,
        owner=owner_of(pod),
        asks=requested_by(pod),
        priority=pod.priority,
        since=times.at(entry.since),
        place=entry.place,
        attempts=entry.attempts,
        next_try=times.at(entry.ready_at) if entry.place == "backoff" else None,
        code=entry.code or NEW,
        reason=_shortened(entry.message or (meaning(entry.code) if entry.code else "")),
        help=what_helps(entry.code, entry.message),
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= REASON_LENGTH_MAX else line[: REASON_LENGTH_MAX - 1] + "…"


@lru_cache(maxsize=4096)
def what_helps(code: str, message: str = "") -> str:
    """The next step of a code, with the names in the message; empty for no code."""
    known = REASON_CODES.get(code)
    if known is None:
        return ""
    about = of_message(parts(message)).get(code) or ConcernedObjects(code)
    return about.named(known.next_step).removesuffix(f" ({code})")


def _reason(code: str, one: WaitingSum, times: LoopTimes) -> ReasonGroup:
    return ReasonGroup(
        code=code,
        meaning=meaning(code),
        help=what_helps(code),
        pods=one.pods,
        devices=dict(sorted(one.devices.items())),
        oldest=times.at(one.since),
    )


def _owner(key: tuple[str, str], one: WaitingSum, times: LoopTimes) -> OwnerGroup:
    namespace, owner = key
    return OwnerGroup(
        namespace=namespace,
        owner=owner,
        pods=one.pods,
        devices=dict(sorted(one.devices.items())),
        oldest=times.at(one.since),
        codes=dict(sorted(one.codes.items())),
    )
