"""Which of two pods is rather kept, and which of several sets of victims is rather taken.

Same as ``pkg/scheduler/framework/preemption`` (MoreImportantVictim, pickOneNodeForPreemption).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod

#: Sorts behind every timestamp: a pod that has not started counts as if it started now.
_NOW: Final = "~"
#: Added to each priority, so that a few pods of negative priority are not better than fewer.
_OFFSET: Final = 2**31


class Victims(Protocol):
    """Pods that may be taken together, the most important one first."""

    @property
    def victims(self) -> tuple[Pod, ...]:
        """At least one pod."""

    @property
    def violations(self) -> int:
        """How many of them violate a disruption budget."""


_Victims = TypeVar("_Victims", bound=Victims)


class Candidate(msgspec.Struct, frozen=True):
    """A node that takes the pod without these victims, the most important one first; ``devices``
    are what the pod would get.
    """

    node_name: str
    victims: tuple[Pod, ...]
    violations: int
    devices: Devices = Devices()


def by_importance(pods: Sequence[Pod], whole: Collection[str] = ()) -> list[Pod]:
    """The most important first: higher priority, then a pod with which others end (the uids in
    ``whole``), then the earlier start.
    """

    def key(pod: Pod) -> tuple[object, ...]:
        return -pod.priority, pod.uid not in whole, _start(pod), pod.created, pod.uid

    return sorted(pods, key=key)


def best(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that no criterion tells apart, by name; the first one is taken."""
    return sorted(cheapest(candidates), key=lambda one: one.node_name)


def cheapest(candidates: Sequence[_Victims]) -> list[_Victims]:
    """The same in their order."""
    least = min(map(_cost, candidates))
    found = [one for one in candidates if _cost(one) == least]
    latest = max(map(_earliest_start, found))
    return [one for one in found if _earliest_start(one) == latest]


def _cost(candidate: Victims) -> tuple[int, int, int, int]:
    """Smaller is better: violations, the highest priority, the sum of priorities, the number."""
    priorities = [pod.priority for pod in candidate.victims]
    total = sum(priority + _OFFSET for priority in priorities)
    return candidate.violations, max(priorities), total, len(priorities)


def _earliest_start(candidate: Victims) -> str:
    """Of the victims with the highest priority."""
    highest = max(pod.priority for pod in candidate.victims)
    return min(_start(pod) for pod in candidate.victims if pod.priority == highest)


def _start(pod: Pod) -> str:
    return pod.started or _NOW
