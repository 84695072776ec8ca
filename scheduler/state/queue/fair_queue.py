"""Who is due, and whose turn it is.

Strict priority between levels. Within a level namespaces take turns, one pod each, so that one
tenant's thousands of pods do not delay another's only one; within a namespace age decides::

    priority 100   team-b: p9
    priority   0   team-a: p1 p2 p3 ...   team-c: p7        next: p9, p1, p7, p2, p3
"""

from __future__ import annotations

from collections import OrderedDict

from scheduler.state.queue.sorted_pods import Item, SortedPods


class FairQueue:
    """Pods that may be decided now."""

    def __init__(self) -> None:
        self._levels: dict[int, OrderedDict[str, SortedPods]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, priority: int, namespace: str, item: Item) -> None:
        """A pod is due; a namespace that had none takes its turn after the others."""
        level = self._levels.setdefault(priority, OrderedDict())
        line = level.get(namespace)
        if line is None:
            line = level[namespace] = SortedPods()
        line.add(item)
        self._count += 1

    def discard(self, priority: int, namespace: str, item: Item) -> None:
        """A pod is not due any more; it must be there."""
        level = self._levels[priority]
        level[namespace].discard(item)
        self._count -= 1
        if not level[namespace]:
            del level[namespace]
        if not level:
            del self._levels[priority]

    def top(self) -> int | None:
        """The priority of the next pod; None when nobody is due."""
        # There are as many levels as priority classes in use: a handful.
        return max(self._levels, default=None)

    def pop(self) -> Item | None:
        """The next pod, which leaves; None when nobody is due."""
        priority = self.top()
        if priority is None:
            return None
        level = self._levels[priority]
        namespace, line = level.popitem(last=False)
        item = line.pop()
        self._count -= 1
        if line:
            level[namespace] = line
        elif not level:
            del self._levels[priority]
        return item
