"""What pods of one class find at the copies of nodes that a what-if view has, until a copy changes.

A plan of many equal pods changes one node between two of them. Without this every pod would check
every node that an earlier one got.

Must never: keep an answer that depends on more than the copy and the class of the pod.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.framework.pipeline import Score
from scheduler.state.node_info import NodeInfo


class FittingCopies:
    """The copies on which pods of one class fit; ``scores`` are those of the copies, as far as
    known. ``unchecked`` are the names of the nodes that changed since the last check.
    """

    __slots__ = ("fitting", "scores", "unchecked")

    def __init__(self, names: Iterable[str]) -> None:
        self.fitting: dict[str, NodeInfo] = {}
        self.scores: dict[str, Score] = {}
        self.unchecked = set(names)

    def change(self, name: str) -> None:
        """A copy was made or changed."""
        self.unchecked.add(name)
        self.fitting.pop(name, None)
        self.scores.pop(name, None)

    def check(self, name: str, copy: NodeInfo, *, fits: bool) -> None:
        """Keep whether a copy takes the pods."""
        self.unchecked.discard(name)
        if fits:
            self.fitting[name] = copy
