"""Filter results of every node per equivalence class, invalidated when a node changes.

A rejection needs the reason of each node. Pods of one class get equal results, and between two pods
only few nodes change. So the results are cached per class, and only changed nodes are checked
again::

    changes   ... n7  n3  n7  n9 ...      every node whose NodeInfo or labels changed, in order
                       ^        ^
                    class A  class B      the results of each class are valid up to here

Must never: return a result that differs from a check of every node (a property test compares).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from scheduler.model.reasons.reason import Diagnosis, DiagnosisHistogram, Reason
from scheduler.state.node_info import NodeInfo

Reasons = tuple[Reason, ...]


class Check(Protocol):
    """The filters of one pod."""

    def at(self, node_info: NodeInfo) -> Reasons:
        """The reasons of one node."""

    def everywhere(self, node_infos: Mapping[str, NodeInfo]) -> Answers:
        """The reasons of each of these nodes that exists, in their order."""


#: Maximum number of changes: a class with an older position is computed again.
CHANGES_MAX = 8192
#: Maximum number of results of all classes together; a few classes are kept in any case.
RESULTS_MAX = 200_000
CLASSES_MIN = 8
#: To replace a result and to put it back takes as long as to add up so many results.
OTHERS_COST = 24


class Answers(NamedTuple):
    """The reasons of many nodes, and how many nodes gave the same ones."""

    by_node: dict[str, Reasons]
    counts: Sequence[tuple[Reasons, int]]

    @staticmethod
    def of_each(check: Check, node_infos: Mapping[str, NodeInfo]) -> Answers:
        """Check each of these nodes that exists."""
        return Answers.counted(
            {
                name: check.at(node_info)
                for name, node_info in node_infos.items()
                if node_info.node is not None
            }
        )

    @staticmethod
    def counted(by_node: dict[str, Reasons]) -> Answers:
        """Count equal objects together."""
        by_id = {id(reasons): reasons for reasons in by_node.values()}
        counts = Counter(map(id, by_node.values()))
        return Answers(by_node, [(by_id[one], count) for one, count in counts.items()])


class SameEverywhere:
    """Filters that reject every node for the same reasons."""

    def __init__(self, reasons: Reasons) -> None:
        self._reasons = reasons

    def at(self, _node_info: NodeInfo) -> Reasons:
        """The reasons."""
        return self._reasons

    def everywhere(self, node_infos: Mapping[str, NodeInfo]) -> Answers:
        """The reasons, for each of these nodes that exists."""
        names = [name for name, node_info in node_infos.items() if node_info.node is not None]
        return Answers(dict.fromkeys(names, self._reasons), [(self._reasons, len(names))])


class FilterResults:
    """The results of one class. ``reasons`` is empty for a node where the pod fits."""

    __slots__ = ("_diagnosis", "_feasible", "_histogram", "_reasons", "seen")

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self._reasons: dict[str, Reasons] = {}
        self._feasible = 0
        self._histogram = DiagnosisHistogram()
        self._diagnosis: Diagnosis | None = None

    @property
    def is_infeasible(self) -> bool:
        """Whether every node rejected the class."""
        return self._feasible == 0

    def feasible(self) -> list[str]:
        """The nodes that said yes."""
        if not self._feasible:
            return []
        return [name for name, reasons in self._reasons.items() if not reasons]

    def diagnosis(self, others: Mapping[str, Reasons] | None = None) -> Diagnosis | None:
        """The reasons of every node, or None if one node fits.

        ``others`` replace results for this call only.
        """
        if self._diagnosis is None:
            self._diagnosis = self._build_diagnosis()
        if not others:
            return self._diagnosis
        if OTHERS_COST * len(others) > len(self._reasons):
            return _added_up({**self._reasons, **others})
        usual = self._diagnosis, {name: self._reasons[name] for name in others}
        for name, reasons in others.items():
            self.put(name, reasons)
        diagnosis = self._build_diagnosis()
        for name, reasons in usual[1].items():
            self.put(name, reasons)
        self._diagnosis = usual[0]
        return diagnosis

    def put(self, name: str, reasons: Reasons) -> None:
        """Set a node's result."""
        known = self._reasons.get(name)
        if known == reasons:
            return
        if known is not None:
            self._forget(known)
        self._reasons[name] = reasons
        self._histogram.add(reasons)
        self._feasible += not reasons
        self._diagnosis = None

    def put_all(self, answers: Answers) -> None:
        """Set the results of all nodes."""
        self._reasons = answers.by_node
        for reasons, count in answers.counts:
            self._histogram.add(reasons, count)
            self._feasible += 0 if reasons else count

    def drop(self, name: str) -> None:
        """Remove a node."""
        known = self._reasons.pop(name, None)
        if known is not None:
            self._forget(known)
            self._diagnosis = None

    def _forget(self, reasons: Reasons) -> None:
        self._histogram.take(reasons)
        self._feasible -= not reasons

    def _build_diagnosis(self) -> Diagnosis | None:
        if self._feasible:
            return None
        diagnosis = Diagnosis(total=len(self._reasons), nodes=dict(self._reasons))
        # The summary is precomputed, so the diagnosis does not visit the nodes again.
        vars(diagnosis)["summary"] = self._histogram.summary(diagnosis.total)
        return diagnosis


def _added_up(nodes: dict[str, Reasons]) -> Diagnosis | None:
    """The diagnosis of these reasons, or None if one node fits."""
    results = FilterResults(0)
    results.put_all(Answers.counted(nodes))
    return results.diagnosis()


class FilterResultCache:
    """The results of every recently rejected class, and the changes since."""

    def __init__(self, node_info: Mapping[str, NodeInfo]) -> None:
        self._node_infos = node_info
        self._changes: list[tuple[str, bool]] = []
        self._first = 0
        self._classes: dict[object, FilterResults] = {}
        self._rejections: dict[object, tuple[object, Diagnosis]] = {}

    def __len__(self) -> int:
        return len(self._classes)

    @property
    def generation(self) -> int:
        """The number of changes; equal numbers mean equal results."""
        return self._first + len(self._changes)

    def touch(self, name: str, *, added: bool = False) -> None:
        """A node or its NodeInfo was changed, deleted, or added (as the last node)."""
        if not self._classes:
            self._first += 1
            return
        self._changes.append((name, added))
        if len(self._changes) > CHANGES_MAX:
            half = CHANGES_MAX // 2
            del self._changes[:half]
            self._first += half

    def was_infeasible(self, equivalence_class: object) -> bool:
        """Whether every node rejected this class at its last check."""
        known = self._classes.get(equivalence_class)
        return known is not None and known.is_infeasible

    def of(self, equivalence_class: object, check: Check) -> FilterResults:
        """The current results of this class."""
        results = self._classes.pop(equivalence_class, None)
        if results is None or results.seen < self._first:
            results = self._compute(check)
        else:
            self._update(results, check)
        # moved to the end: the least recently used class is evicted first
        self._classes[equivalence_class] = results
        return results

    def rejection(self, pods: object, state: object) -> Diagnosis | None:
        """The diagnosis of these pods, if it was kept for the same state."""
        known = self._rejections.get(pods)
        return known[1] if known is not None and known[0] == state else None

    def keep_rejection(self, pods: object, state: object, diagnosis: Diagnosis) -> None:
        """Keep the diagnosis of pods whose filters also read what is not on the node.

        A change of any node makes it useless, unlike the results per node above.
        """
        self._rejections.pop(pods, None)
        while len(self._rejections) >= self._kept:
            del self._rejections[next(iter(self._rejections))]
        self._rejections[pods] = (state, diagnosis)

    @property
    def _kept(self) -> int:
        """The number of classes that are kept."""
        return max(CLASSES_MIN, RESULTS_MAX // max(1, len(self._node_infos)))

    def uncached(self, check: Check) -> FilterResults:
        """The current results, without caching."""
        results = FilterResults(self.generation)
        results.put_all(check.everywhere(self._node_infos))
        return results

    def _compute(self, check: Check) -> FilterResults:
        results = self.uncached(check)
        while len(self._classes) >= self._kept:
            del self._classes[next(iter(self._classes))]
        return results

    def _update(self, results: FilterResults, check: Check) -> None:
        changed: dict[str, None] = {}
        for name, added in self._changes[results.seen - self._first :]:
            if added:  # nodes are in the order of their addition
                changed.pop(name, None)
                results.drop(name)
            changed[name] = None
        for name in changed:
            node_info = self._node_infos.get(name)
            if node_info is None or node_info.node is None:
                results.drop(name)
            else:
                results.put(name, check.at(node_info))
        results.seen = self.generation
