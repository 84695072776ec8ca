"""What every node says to a kind of pod, remembered until the node changes.

A "no" of the whole cluster must name a reason for each node. Equal pods get equal answers, and
between two pods only few nodes change; so the answers are kept per kind, and only nodes that
changed since are asked again::

    changes   ... n7  n3  n7  n9 ...      every node whose books or labels changed, in order
                       ^        ^
                    kind A   kind B       up to here each kind's answers are known

Must never: answer what a look at every node would not answer now (a property test compares).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.model.reason import Diagnosis, DiagnosisHistogram, Reason
from scheduler.state.node_info import NodeInfo

Reasons = tuple[Reason, ...]
Check = Callable[[NodeInfo], Reasons]

#: More changes than this are not kept: a kind that is asked for so seldom is asked for afresh.
CHANGES_MAX = 8192
#: Answers of nodes that all kinds together may hold; a few kinds are kept in any case.
ANSWERS_MAX = 200_000
KINDS_MIN = 8


class FilterResults:
    """One kind's answers. ``reasons`` is empty for a node that says yes."""

    __slots__ = ("_diagnosis", "_digest", "_reasons", "_willing", "seen")

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self._reasons: dict[str, Reasons] = {}
        self._willing = 0
        self._digest = DiagnosisHistogram()
        self._diagnosis: Diagnosis | None = None

    @property
    def is_hopeless(self) -> bool:
        """Whether every node said no."""
        return self._willing == 0

    def diagnosis(self, others: Mapping[str, Reasons] | None = None) -> Diagnosis | None:
        """Why every node says no, or None where one does not.

        ``others`` are answers that hold instead for this once.
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
        """A node's newest answer."""
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
        """A node is gone."""
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
        # It is added up already: nobody has to go through the nodes again.
        vars(diagnosis)["summary"] = self._digest.summary(diagnosis.total)
        return diagnosis


class FilterResultCache:
    """The answers to every kind that was refused lately, and the changes since."""

    def __init__(self, node_info: Mapping[str, NodeInfo]) -> None:
        self._books = node_info
        self._changes: list[tuple[str, bool]] = []
        self._first = 0
        self._kinds: dict[object, FilterResults] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def generation(self) -> int:
        """How many changes there were; equal numbers mean equal answers."""
        return self._first + len(self._changes)

    def touch(self, name: str, *, came: bool = False) -> None:
        """A node, or what its books hold, changed; or it went, or came (as the last one)."""
        if not self._kinds:
            self._first += 1
            return
        self._changes.append((name, came))
        if len(self._changes) > CHANGES_MAX:
            half = CHANGES_MAX // 2
            del self._changes[:half]
            self._first += half

    def seems_hopeless(self, kind: object) -> bool:
        """Whether every node said no to this kind when it was asked last."""
        known = self._kinds.get(kind)
        return known is not None and known.is_hopeless

    def of(self, kind: object, check: Check) -> FilterResults:
        """This kind's answers as they are now."""
        verdict = self._kinds.pop(kind, None)
        if verdict is None or verdict.seen < self._first:
            verdict = self._afresh(check)
        else:
            self._renew(verdict, check)
        self._kinds[kind] = verdict  # at the end: the kind that was asked for last stays longest
        return verdict

    def once(self, check: Check) -> FilterResults:
        """The answers as they are now, of which none is remembered."""
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
            if came:  # nodes are told in the order in which they came
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
