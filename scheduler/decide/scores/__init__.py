"""Scores: which of the feasible nodes is best; smaller is better, compared as a tuple.

In this order (design 6): the pod's soft preferences, then the fewest leftovers on the
node, then the node's name, so that equal inputs always give the same node.
"""

from __future__ import annotations

from scheduler.decide.scores import leftover, preference
from scheduler.model.pod import Pod
from scheduler.state.ledger import NodeBooks

Score = tuple[int, tuple[int, ...], str]


def score(pod: Pod, books: NodeBooks, *, spread: bool) -> Score:
    """The sort key of one feasible node."""
    assert books.node is not None
    left = leftover.measure(pod, books)
    ordered = tuple(-value for value in left) if spread else left
    return (preference.dislike(pod, books.node), ordered, books.node.name)
