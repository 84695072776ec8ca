"""New nodes whose MIG layout is awaited: for how long they give nothing away.

The labels by which a GPU operator says that it will cut a node come minutes after the node. A node
of which nothing is heard for so long is used as it is: perhaps no mig-manager works there.
"""

from __future__ import annotations

import math
from typing import Final

from scheduler.model.node import Node
from scheduler.model.timestamps import epoch

#: Seconds from a node's creation. Drivers are installed within this time on a fresh machine.
SETTLED_AFTER_S: Final = 900


class LayoutWait:
    """The nodes that are awaited now."""

    def __init__(self) -> None:
        self._born: dict[str, float] = {}

    def see(self, node: Node) -> None:
        """A node's newest state; one of a file that does not say when it was created stays new."""
        if node.mig_awaited:
            born = epoch(node.created)
            self._born[node.name] = math.inf if born is None else born
        else:
            self.lose(node.name)

    def lose(self, name: str) -> None:
        """The node is gone, or not awaited any more."""
        self._born.pop(name, None)

    def old(self, now: float) -> list[str]:
        """The nodes that were waited for long enough at ``now`` (Unix time); each is told once."""
        found = sorted(name for name, at in self._born.items() if now - at >= SETTLED_AFTER_S)
        for name in found:
            self.lose(name)
        return found
