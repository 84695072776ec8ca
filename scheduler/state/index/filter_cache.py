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

from collections.abc import Callable, Mapping

from scheduler.model.reason import Diagnosis, DiagnosisHistogram, Reason
from scheduler.state.node_info import NodeInfo

Reasons = tuple[Reason, ...]
Check = Callable[[NodeInfo], Reasons]

#: Maximum number of changes: a class with an older position is computed again.
CHANGES_MAX = 8192
#: Maximum number of results of all classes together; a few classes are kept in any case.
ANSWERS_MAX = 200_000
KINDS_MIN = 8


class FilterResults:
    """The results of one class. ``reasons`` is empty for a node where the pod fits."""

    __slots__ = ("_diagnosis", "_digest", "_reasons", "_willing", "seen")

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self._reasons: dict[str, Reasons] = {}
        self._willing = 0
        self._digest = DiagnosisHistogram()
        self._diagnosis: Diagnosis | None = None

    @property
    def is_hopeless(self) -> bool:
        """Whether every node rejected the class."""
        return self._willing == 0

    def diagnosis(self, others: Mapping[str, Reasons] | None = None) -> Diagnosis | None:
        """The reasons of every node, or None if one node fits.

        ``others`` replace results for this call only.
        """
        if self._diagnosis is None:
            self._diagnosis = self._added_up()
        if not others:
            return self._diagnosis
        usual = self._diagnosis, {name: self._reasons[name] for name in others}
        for name, reasons in others.items():
            self.put(name, reasons)
        diagnosis = self._added_up()
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
        self._digest.add(reasons)
        self._willing += not reasons
        self._diagnosis = None

    def drop(self, name: str) -> None:
        """Remove a node."""
        known = self._reasons.pop(name, None)
        if known is not None:
            self._forget(known)
            self._diagnosis = None

    def _forget(self, reasons: Reasons) -> None:
        self._digest.take(reasons)
        self._willing -= not reasons

    def _added_up(self) -> Diagnosis | None:
        if self._willing:
            return None
        diagnosis = Diagnosis(total=len(self._reasons), nodes=dict(self._reasons))
        # The summary is precomputed, so the diagnosis does not visit the nodes again.
        vars(diagnosis)["summary"] = self._digest.summary(diagnosis.total)
        return diagnosis


class FilterResultCache:
    """The results of every recently rejected class, and the changes since."""

    def __init__(self, node_info: Mapping[str, NodeInfo]) -> None:
        self._books = node_info
        self._changes: list[tuple[str, bool]] = []
        self._first = 0
        self._kinds: dict[object, FilterResults] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def generation(self) -> int:
        """The number of changes; equal numbers mean equal results."""
        return self._first + len(self._changes)

    def touch(self, name: str, *, came: bool = False) -> None:
        """A node or its NodeInfo was changed, deleted, or added (as the last node)."""
        if not self._kinds:
            self._first += 1
            return
        self._changes.append((name, came))
        if len(self._changes) > CHANGES_MAX:
            half = CHANGES_MAX // 2
            del self._changes[:half]
            self._first += half

    def seems_hopeless(self, kind: object) -> bool:
        """Whether every node rejected this class at its last check."""
        known = self._kinds.get(kind)
        return known is not None and known.is_hopeless

    def of(self, kind: object, check: Check) -> FilterResults:
        """The current results of this class."""
        verdict = self._kinds.pop(kind, None)
        if verdict is None or verdict.seen < self._first:
            verdict = self._afresh(check)
        else:
            self._renew(verdict, check)
        # moved to the end: the least recently used class is evicted first
        self._kinds[kind] = verdict
        return verdict

    def once(self, check: Check) -> FilterResults:
        """The current results, without caching."""
        verdict = FilterResults(self.generation)
        for name, node_info in self._books.items():
            if node_info.node is not None:
                verdict.put(name, check(node_info))
        return verdict

    def _afresh(self, check: Check) -> FilterResults:
        verdict = self.once(check)
        kept = max(KINDS_MIN, ANSWERS_MAX // max(1, len(self._books)))
        while len(self._kinds) >= kept:
            del self._kinds[next(iter(self._kinds))]
        return verdict

    def _renew(self, verdict: FilterResults, check: Check) -> None:
        changed: dict[str, None] = {}
        for name, came in self._changes[verdict.seen - self._first :]:
            if came:  # nodes are in the order of their addition
                changed.pop(name, None)
                verdict.drop(name)
            changed[name] = None
        for name in changed:
            node_info = self._books.get(name)
            if node_info is None or node_info.node is None:
                verdict.drop(name)
            else:
                verdict.put(name, check(node_info))
        verdict.seen = self.generation
