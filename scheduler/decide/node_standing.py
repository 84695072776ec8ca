"""What a decision about a pod without GPUs finds at a node, kept until the node changes.

Pods of one equivalence class get the same answers of the node filters, and the same of those scores
that depend on the node alone. Between two pods few nodes change, so most of the compared nodes were
looked at by the decision before.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import msgspec

from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.framework.pipeline import Score, first_bound_rejection, first_rejection
from scheduler.framework.plugin import NormalizedScore
from scheduler.state.index.node_index import RankedClasses
from scheduler.state.index.node_memo import NodeAnswers
from scheduler.state.node_info import NodeInfo

#: The first part of the keys in the memo of the nodes.
_COMPARED: Final = "compared"


class Standing(msgspec.Struct, frozen=True):
    """One node for one class of pods. ``score`` has the scores of the node alone; it is None where
    a node filter rejects the pod.
    """

    node_info: NodeInfo
    score: Score | None


class Standings:
    """The nodes of one decision, as kube-scheduler's scores compare them for a pod without GPUs."""

    def __init__(self, nodes: FeasibleNodes) -> None:
        self._nodes = nodes
        self._filters = nodes.pipeline.points(nodes.pod).node_filters
        self._kept: NodeAnswers | None = None
        if nodes.pod.map_text is None:  # a mapped pod is of no class
            self._kept = nodes.view.nodes.memo.of((_COMPARED, nodes.equivalence_class))
        self._of_node = nodes.pipeline.scores_of_node
        self._relative = nodes.pipeline.relative_scores

    def fitting(self, classes: RankedClasses, name: str) -> NodeInfo | None:
        """Same as ``FeasibleNodes.fitting``."""
        nodes = self._nodes
        if (
            name in nodes.view.changed
            or nodes.view.index.class_numbers[name] not in classes.numbers
        ):
            return None
        standing = self._at(name)
        if standing.score is None:
            return None
        if nodes.bound and first_bound_rejection(standing.node_info, nodes.bound):
            return None
        return standing.node_info

    def best(self, feasible: Sequence[NodeInfo]) -> NodeInfo:
        """The feasible node with the best scores."""
        found = [(self._score(node_info), node_info) for node_info in feasible]
        totals = self._sums(feasible, self._relative)
        if totals.count(totals[0]) < len(totals):
            found = [
                (_plus(score, *total), node_info)
                for (score, node_info), total in zip(found, totals, strict=True)
            ]
        return min(found, key=itemgetter(0))[1]

    def _score(self, node_info: NodeInfo) -> Score:
        """The scores of a feasible node alone."""
        assert node_info.node is not None
        nodes, name = self._nodes, node_info.node.name
        if name not in nodes.view.changed:
            return self._at(name).score or self._computed(node_info)
        if (copies := nodes.copies) is None:
            return self._computed(node_info)
        score = copies.scores.get(name)
        if score is None:
            score = copies.scores[name] = self._computed(node_info)
        return score

    def _at(self, name: str) -> Standing:
        """The standing of a node without a placement on top."""
        known = self._kept.get(name) if self._kept is not None else None
        if isinstance(known, Standing):
            return known
        nodes = self._nodes
        node_info = nodes.view.at(name)
        assert node_info is not None, f"{name} is in a bucket and does not exist"
        rejected = first_rejection(nodes.pod, node_info, self._filters)
        standing = Standing(node_info, None if rejected else self._computed(node_info))
        if self._kept is not None:
            self._kept.keep(name, standing)
        return standing

    def _computed(self, node_info: NodeInfo) -> Score:
        [totals] = self._sums((node_info,), self._of_node)
        return self._nodes.pipeline.compared_score(self._nodes.pod, node_info, totals)

    def _sums(
        self, feasible: Sequence[NodeInfo], scores: Sequence[NormalizedScore]
    ) -> list[tuple[int, int]]:
        nodes = self._nodes
        return nodes.pipeline.sums(nodes.view, nodes.pod, feasible, scores)


def _plus(score: Score, preferences: int, others: int) -> Score:
    """The sort key of a node with more sums of normalized scores; less is better."""
    penalty, ((devices, scores), *keys), tie, name = score
    return (penalty - preferences, ((devices, scores - others), *keys), tie, name)
