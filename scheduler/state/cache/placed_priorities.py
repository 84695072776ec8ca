"""On which nodes there are pods of which priority: where preemption could find a victim. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scheduler.model.pods.pod import Pod


class PlacedPriorities:
    """Counts placed pods by priority and node; ``ours`` those of one scheduler, ``all`` any."""

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._ours: dict[int, Counter[str]] = {}
        self._all: dict[int, Counter[str]] = {}

    def change(self, before: Pod | None, after: Pod | None, node_name: str) -> None:
        """A pod came to a node, changed there, or went."""
        if before is not None and after is not None and _is_alike(before, after):
            return
        if before is not None:
            self._add(before, node_name, -1)
        if after is not None:
            self._add(after, node_name, 1)

    def _add(self, pod: Pod, node_name: str, delta: int) -> None:
        _add(self._all, pod.priority, node_name, delta)
        if pod.scheduler_name == self._scheduler_name:
            _add(self._ours, pod.priority, node_name, delta)

    def below(self, priority: int, *, ours: bool) -> Iterator[str]:
        """The nodes that have pods of a lower priority; a node may come more than once."""
        for one, nodes in (self._ours if ours else self._all).items():
            if one < priority:
                yield from nodes


def _is_alike(one: Pod, other: Pod) -> bool:
    return (one.priority, one.scheduler_name) == (other.priority, other.scheduler_name)


def _add(counts: dict[int, Counter[str]], priority: int, node_name: str, delta: int) -> None:
    nodes = counts.get(priority)
    if nodes is None:
        nodes = counts[priority] = Counter()
    nodes[node_name] += delta
    if not nodes[node_name]:
        del nodes[node_name]
        if not nodes:
            del counts[priority]
