"""A sorted list of pods, oldest first; an item can be removed from any position.

Pods arrive mostly in order, so an insertion is an append; removal at the head moves an offset, not
the list.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice

#: (creation time, arrival number, uid): sorted by age, then by arrival.
Item = tuple[str, int, str]

_TRIM_AT = 64


class SortedPods:
    """Items in order."""

    __slots__ = ("_head", "_items")

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._head = 0

    def __len__(self) -> int:
        return len(self._items) - self._head

    def __iter__(self) -> Iterator[Item]:
        return islice(self._items, self._head, None)

    def add(self, item: Item) -> None:
        """Insert an item."""
        insort(self._items, item, lo=self._head)

    def discard(self, item: Item) -> None:
        """Remove an item; it must be in the list."""
        at = bisect_left(self._items, item, lo=self._head)
        assert self._items[at] == item, f"{item[2]} is not in line"
        if at == self._head:
            self.pop()
        else:
            del self._items[at]

    def pop(self) -> Item:
        """Remove and return the oldest item."""
        item = self._items[self._head]
        self._head += 1
        if self._head >= _TRIM_AT and self._head * 2 > len(self._items):
            del self._items[: self._head]
            self._head = 0
        return item
