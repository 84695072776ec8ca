"""New nodes that wait for their MIG layout: how long no GPU on them is assigned.

The GPU operator sets its labels minutes after the node was added. A node without these labels is
used after the wait: perhaps no mig-manager runs there.
"""

from __future__ import annotations

import math
from typing import Final

from scheduler.model.node import Node
from scheduler.model.timestamps import epoch

#: Seconds since a node's creation. Drivers are installed within this time on a new machine.
SETTLED_AFTER_S: Final = 900


class LayoutWait:
    """The nodes that wait."""

    def __init__(self) -> None:
        self._born: dict[str, float] = {}

    def see(self, node: Node) -> None:
        """A node's newest state; a node without a creation time (from a file) stays new."""
        if node.mig_awaited:
            born = epoch(node.created)
            self._born[node.name] = math.inf if born is None else born
        else:
            self.lose(node.name)

    def lose(self, name: str) -> None:
        """The node was deleted, or has its layout."""
        self._born.pop(name, None)

    def old(self, now: float) -> list[str]:
        """The nodes whose wait ends at ``now`` (Unix time); each is returned once."""
        found = sorted(name for name, at in self._born.items() if now - at >= SETTLED_AFTER_S)
        for name in found:
            self.lose(name)
        return found
