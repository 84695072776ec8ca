"""A pod's position among the pods that wait: by priority, then age.

Namespaces with pods of one priority take turns (``state/queue/fair_queue``), so a pod may be
decided before an older one of another namespace.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.state.parts import Parts
from scheduler.state.queue.equivalence_group import QueuedPodInfo

BEFORE_MAX: Final = 3
#: Entries that are compared in one part.
PART: Final = 500

Entry = TypeVar("Entry")


class Position(msgspec.Struct, frozen=True):
    """``position`` is from 1 to ``of``; ``before`` are the pods just before, the nearest first."""

    position: int
    of: int
    before: tuple[Pod, ...]


def position(entry: QueuedPodInfo, entries: Iterable[QueuedPodInfo]) -> Parts[Position]:
    """The position of an entry among all entries of the queue, as they are now."""
    every, mine, place = list(entries), order(entry), 1
    nearest: list[QueuedPodInfo] = []
    for part in in_slices(every):
        before = [other for other in part if order(other) < mine]
        place += len(before)
        nearest = heapq.nlargest(BEFORE_MAX, (*nearest, *before), key=order)
        yield len(part)
    return Position(place, len(every), tuple(one.pod for one in nearest))


def in_slices(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """The entries in parts."""
    for at in range(0, len(entries), PART):
        yield entries[at : at + PART]


def first(entries: Sequence[QueuedPodInfo], most: int) -> Parts[list[QueuedPodInfo]]:
    """At most so many entries, in their order."""
    found: list[QueuedPodInfo] = []
    for part in in_slices(entries):
        found = sorted((*found, *part), key=order)[:most]
        yield len(part)
    return found


def order(entry: QueuedPodInfo) -> tuple[object, ...]:
    """The sort key of the pods that wait."""
    return (-entry.pod.priority, *entry.item)
