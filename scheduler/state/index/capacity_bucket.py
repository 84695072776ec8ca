"""Nodes in best-fit order, so that the best one is found without looking at the others.

A shelf holds nodes by what they have free of one resource::

    (wanted free, other devices free) -> [(cpu free, name), ...] in order

Best fit reads it from the left, starting at what the pod needs; spreading reads it from
the right, except for pods that need no device: they keep away from devices. One entry
goes in or out in O(log n) comparisons.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

from scheduler.state.invariant import InvariantViolation

#: Below all that can be left of a resource: a million pods may hold 64 bits of it each.
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
        """Whether no node is on it."""
        return not self._order

    def put(self, group: Group, slot: Slot) -> None:
        """Enter a node."""
        slots = self._groups.get(group)
        if slots is None:
            self._groups[group] = [slot]
            insort(self._order, group)
        else:
            insort(slots, slot)

    def take(self, group: Group, slot: Slot) -> None:
        """Take a node out; it must be there."""
        slots = self._groups[group]
        place = bisect_left(slots, slot)
        if slots[place] != slot:
            raise InvariantViolation(f"node {slot[1]} is not where the index left it")
        del slots[place]
        if not slots:
            del self._groups[group]
            del self._order[bisect_left(self._order, group)]

    def fitting(self, need: int, cpu: int, *, spread: bool) -> Iterator[tuple[Group, Slot]]:
        """Nodes with at least ``need`` and ``cpu`` free: tightest first, or emptiest first."""
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
    """Most cpu first, equal ones by name: the order in which a full scan ranks them."""
    end = len(slots)
    floor = bisect_left(slots, (cpu, ""))
    while end > floor:
        start = bisect_left(slots, (slots[end - 1][0], ""))
        yield from slots[start:end]
        end = start
