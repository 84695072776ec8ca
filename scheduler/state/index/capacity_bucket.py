"""Nodes in best-fit order, so that the best one is found without visiting the others.

A bucket orders nodes by their free amount of one resource::

    (wanted free, other devices free) -> [(cpu free, name), ...] in order

Best fit reads it from the left, starting at the pod's request. Spreading reads it from the right,
except for pods without a device request, which avoid devices. An insertion or removal takes O(log
n) comparisons.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

from scheduler.state.invariant import InvariantViolation

#: Below every possible leftover of a resource: a million pods may hold 64 bits of it each.
LEAST: Final = -(2**127)

Group = tuple[int, int]
Slot = tuple[int, str]


class CapacityBucket:
    """Nodes ordered by free capacity of one resource."""

    __slots__ = ("_groups", "_order")

    def __init__(self) -> None:
        self._groups: dict[Group, list[Slot]] = {}
        self._order: list[Group] = []

    def __len__(self) -> int:
        return sum(len(slots) for slots in self._groups.values())

    @property
    def is_empty(self) -> bool:
        """Whether the bucket is empty."""
        return not self._order

    def put(self, group: Group, slot: Slot) -> None:
        """Insert a node."""
        slots = self._groups.get(group)
        if slots is None:
            self._groups[group] = [slot]
            insort(self._order, group)
        else:
            insort(slots, slot)

    def take(self, group: Group, slot: Slot) -> None:
        """Remove a node; it must be in the bucket."""
        slots = self._groups[group]
        place = bisect_left(slots, slot)
        if slots[place] != slot:
            raise InvariantViolation(f"node {slot[1]} is not where the index left it")
        del slots[place]
        if not slots:
            del self._groups[group]
            del self._order[bisect_left(self._order, group)]

    def fitting(self, need: int, cpu: int, *, spread: bool) -> Iterator[tuple[Group, Slot]]:
        """Nodes with at least ``need`` and ``cpu`` free, in order: tightest or emptiest first."""
        order = self._order
        start = bisect_left(order, (need, LEAST))
        if not spread:
            for group in order[start:]:
                slots = self._groups[group]
                for at in range(bisect_left(slots, (cpu, "")), len(slots)):
                    yield group, slots[at]
            return
        for group in reversed(order[start:]) if need else order[start:]:
            for slot in _emptiest_first(self._groups[group], cpu):
                yield group, slot


def _emptiest_first(slots: list[Slot], cpu: int) -> Iterator[Slot]:
    """Most CPU first, equal nodes by name: the order of a full scan."""
    end = len(slots)
    floor = bisect_left(slots, (cpu, ""))
    while end > floor:
        start = bisect_left(slots, (slots[end - 1][0], ""))
        yield from slots[start:end]
        end = start
