"""Which GPU resources there are at all: what some node advertises, or cuts when it is asked.

Full or not does not matter here. A tier that no node has is not even tried.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from scheduler.model import names
from scheduler.model.migprofile import Board, profile_of
from scheduler.model.node import Node


class Offers:
    """Resources and boards, by how many nodes have them."""

    def __init__(self) -> None:
        self._resources: Counter[str] = Counter()
        self._boards: Counter[Board] = Counter()

    def change(self, before: Node | None, after: Node | None) -> None:
        """A node came, changed or went."""
        for node, step in ((before, -1), (after, 1)):
            if node is None:
                continue
            for resource in node.devices:
                self._count(self._resources, resource, step)
            if node.cuttable is not None:
                self._count(self._boards, node.cuttable.board, step)

    def has(self, resource: str) -> bool:
        """Whether some node has it, under this name or another one of the same profile."""
        if resource in self._resources:
            return True
        is_mig = names.is_mig(resource)
        return is_mig and any(profile_of(board, resource) for board in self._boards)

    def resources(self) -> list[str]:
        """All of them, by name."""
        return sorted(self._resources)

    def _count(self, counts: Counter[Any], key: Any, step: int) -> None:
        counts[key] += step
        if not counts[key]:
            del counts[key]
