"""Pods that are due, in the order of the decisions.

Levels are in strict priority order. Within a level namespaces take turns, one pod each, so that a
namespace with thousands of pods does not delay another one; with teams those of the team come first
that has least of what it is entitled to. Within a namespace the oldest pod is first::

    priority 100   team-b: p9
    priority   0   team-a: p1 p2 p3 ...   team-c: p7        next: p9, p1, p7, p2, p3
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice

#: (creation time, arrival number, uid): sorted by age, then by arrival.
Item = tuple[str, int, str]

#: The place of a namespace whose oldest pod has this uid; the smallest one is next.
Turn = Callable[[str], tuple[float, ...]]

_TRIM_AT = 64


class SortedPods:
    """Pods sorted by age, oldest first; any of them can be removed.

    Pods arrive mostly in order, so an insertion is an append. A removal at the head moves an offset
    instead of the list.
    """

    __slots__ = ("_head", "_items")

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._head = 0

    def __len__(self) -> int:
        return len(self._items) - self._head

    def __iter__(self) -> Iterator[Item]:
        return islice(self._items, self._head, None)

    def first(self) -> Item:
        """The oldest item; there must be one."""
        return self._items[self._head]

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


class FairQueue:
    """Pods that may be decided now."""

    def __init__(self) -> None:
        self._levels: dict[int, OrderedDict[str, SortedPods]] = {}
        self._count = 0
        #: Which namespaces come first, beside their turns; None: their turns alone decide.
        self.turn: Turn | None = None

    def __len__(self) -> int:
        return self._count

    def add(self, priority: int, namespace: str, item: Item) -> None:
        """Add a due pod; a namespace without due pods joins the end of the rotation."""
        level = self._levels.setdefault(priority, OrderedDict())
        line = level.get(namespace)
        if line is None:
            line = level[namespace] = SortedPods()
        line.add(item)
        self._count += 1

    def discard(self, priority: int, namespace: str, item: Item) -> None:
        """Remove a pod; it must be in the queue."""
        level = self._levels[priority]
        level[namespace].discard(item)
        self._count -= 1
        if not level[namespace]:
            del level[namespace]
        if not level:
            del self._levels[priority]

    def top(self) -> int | None:
        """The priority of the next pod; None if no pod is due."""
        # There are only as many levels as priority classes in use.
        return max(self._levels, default=None)

    def pop(self) -> Item | None:
        """Remove and return the next pod; None if no pod is due."""
        priority = self.top()
        if priority is None:
            return None
        level = self._levels[priority]
        if (turn := self.turn) is None:
            namespace, line = level.popitem(last=False)
        else:
            namespace = min(level, key=lambda name: turn(level[name].first()[2]))
            line = level.pop(namespace)
        item = line.pop()
        self._count -= 1
        if line:
            level[namespace] = line
        elif not level:
            del self._levels[priority]
        return item
