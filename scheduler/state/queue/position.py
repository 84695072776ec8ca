"""A pod's position among the pods that wait: by priority, then age.

Namespaces with pods of one priority take turns (``state/queue/fair_queue``), so a pod may be
decided before an older one of another namespace.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.state.queue.equivalence_group import QueuedPodInfo

BEFORE_MAX: Final = 3


class Position(msgspec.Struct, frozen=True):
    """``position`` is from 1 to ``of``; ``before`` are the pods just before, the nearest first."""

    position: int
    of: int
    before: tuple[Pod, ...]


def position(entry: QueuedPodInfo, entries: Iterable[QueuedPodInfo]) -> Position:
    """The position of an entry among all entries of the queue."""
    mine, count = order(entry), 0
    before: list[QueuedPodInfo] = []
    for other in entries:
        count += 1
        if order(other) < mine:
            before.append(other)
    nearest = heapq.nlargest(BEFORE_MAX, before, key=order)
    return Position(len(before) + 1, count, tuple(one.pod for one in nearest))


def order(entry: QueuedPodInfo) -> tuple[object, ...]:
    """The sort key of the pods that wait."""
    return (-entry.pod.priority, *entry.item)
