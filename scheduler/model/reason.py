"""Why a node, or the whole cluster, says no.

A reason is a value: a stable code (``model/reason_code``), a sentence that can be counted
(kube-scheduler's words, so that people's greps keep working), and numbers. A diagnosis holds
the reasons of every node, and adds them up to the sentence that people read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from scheduler.model.condition_reason import ORDER, ConditionReason
from scheduler.model.quantity import format_value
from scheduler.model.reason_code import ReasonCode, RequeueCause

__all__ = [
    "NEVER",
    "Diagnosis",
    "DiagnosisHistogram",
    "Never",
    "Reason",
    "ReasonCode",
    "RequeueCause",
    "Summary",
    "sentence",
]

#: kube-scheduler's whole sentence where there is no node.
NO_NODES_TEXT = "no nodes available to schedule pods"
#: How the part of a sentence begins that says that no node here will ever do.
NEVER = "can never be placed here: "


class Reason(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One "no" of one node.

    ``text`` is what the histogram counts; ``need`` and ``have`` are its numbers in the
    resource's base unit (milli for cpu, whole units otherwise), for the resource
    ``resource``; ``resolvable`` is False where removing pods could not help
    (kube-scheduler's UnschedulableAndUnresolvable).
    """

    code: ReasonCode
    text: str
    resource: str = ""
    need: int = 0
    have: int = 0
    resolvable: bool = True


class Summary(msgspec.Struct, frozen=True):
    """What a diagnosis comes to: the sentence, its codes, and the resources there is too little of.

    ``lacking`` are those of which some node that passed all else had too little.
    """

    message: str
    codes: frozenset[ReasonCode]
    lacking: frozenset[str]


class Never(msgspec.Struct, frozen=True):
    """Why not even an empty node of any kind seen here would do, with numbers.

    ``is_profile`` where no GPU model seen here has the MIG profile. Otherwise a larger node than
    any here would help, and an autoscaler may know one.
    """

    text: str
    is_profile: bool = False


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Why no node was good enough.

    ``nodes`` maps a node name to its reasons. ``general`` is set instead where the pod
    failed before any node was looked at (kube-scheduler's PreFilter). ``behind`` are reasons
    that ``general`` sums up: what lifts one of them lifts the whole. ``never`` says that the
    nodes seen here would not do if they were empty.
    """

    total: int
    nodes: Mapping[str, tuple[Reason, ...]] = {}
    general: Reason | None = None
    never: Never | None = None
    behind: tuple[Reason, ...] = ()

    @cached_property
    def summary(self) -> Summary:
        """Added up once, however many pods share this diagnosis."""
        digest = DiagnosisHistogram()
        for reasons in self.nodes.values():
            digest.add(reasons)
        found = _with_behind(digest.summary(self.total, self.general), self.behind)
        return _with_never(found, self.never)

    def with_never(self, never: Never) -> Diagnosis:
        """The same, where the nodes seen here would not do if they were empty.

        Equal pods share this one, too.
        """
        said: Diagnosis | None = vars(self).get("said")
        if said is None or said.never != never:
            said = vars(self)["said"] = msgspec.structs.replace(self, never=never)
            # It is added up already.
            vars(said)["summary"] = _with_never(self.summary, never)
        return said

    def codes(self) -> frozenset[ReasonCode]:
        """All codes that took part in the "no"."""
        return self.summary.codes

    def causes(self) -> frozenset[RequeueCause]:
        """The kinds of change that could make a retry succeed."""
        return frozenset(cause for code in self.codes() for cause in code.lifted_by)

    def lacking(self) -> frozenset[str]:
        """The resources of which some node that passed all else had too little."""
        return self.summary.lacking

    def condition_reason(self, *, is_mapped: bool) -> ConditionReason:
        """The reason of the condition ``PodScheduled``."""
        if self.never is not None and self.never.is_profile:
            return ConditionReason.NO_SUCH_PROFILE
        return condition_reason_of(self.codes(), is_mapped=is_mapped)


def condition_reason_of(codes: Iterable[ReasonCode], *, is_mapped: bool) -> ConditionReason:
    """The condition's reason for the codes of one rejection, for a pod with or without a map."""
    at_a_node = (
        ConditionReason.WAITING_FOR_MAPPED_NODE if is_mapped else ConditionReason.UNSCHEDULABLE
    )
    reasons = {code.condition or at_a_node for code in codes}
    return min(reasons, key=ORDER.__getitem__, default=ConditionReason.UNSCHEDULABLE)


def _with_behind(found: Summary, behind: tuple[Reason, ...]) -> Summary:
    if not behind:
        return found
    codes = found.codes.union(one.code for one in behind)
    short = {one.resource for one in behind if one.code.is_about_resource}
    return msgspec.structs.replace(found, codes=codes, lacking=found.lacking | short)


class _Line:
    """One sentence of the histogram: how many nodes say it, and what each of them has."""

    __slots__ = ("best", "count", "haves", "reason")

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        self.count = 0
        self.best = reason.have
        self.haves: dict[int, int] = {}


class DiagnosisHistogram:
    """The reasons of many nodes, added up so that one node's can be exchanged at little cost.

    Equal texts have equal codes and needs within one diagnosis; only what nodes have differs.
    """

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    def add(self, reasons: tuple[Reason, ...]) -> None:
        """Count one node's reasons."""
        for reason in reasons:
            line = self._lines.get(reason.text)
            if line is None:
                line = self._lines[reason.text] = _Line(reason)
            line.count += 1
            if reason.resource:
                line.haves[reason.have] = line.haves.get(reason.have, 0) + 1
                line.best = max(line.best, reason.have)

    def take(self, reasons: tuple[Reason, ...]) -> None:
        """Count one node's reasons no more; they were added before."""
        for reason in reasons:
            line = self._lines[reason.text]
            line.count -= 1
            if line.count == 0:
                del self._lines[reason.text]
            elif reason.resource:
                self._have_less(line, reason.have)

    def _have_less(self, line: _Line, have: int) -> None:
        line.haves[have] -= 1
        if line.haves[have] == 0:
            del line.haves[have]
            if have == line.best:
                line.best = max(line.haves)

    def summary(self, total: int, general: Reason | None = None) -> Summary:
        """What it comes to.

        The sentence is kube-scheduler's FitError text, with our numbers in brackets behind a
        reason. Same as ``pkg/scheduler/framework/types.go`` FitError.Error; the numbers never
        hold a comma, because readers cut the list at commas.
        """
        codes = frozenset(line.reason.code for line in self._lines.values())
        lacking = frozenset(
            line.reason.resource
            for line in self._lines.values()
            if line.reason.code.is_about_resource
        )
        if general is not None:
            codes = frozenset((general.code,))
        return Summary(self._message(total, general), codes, lacking)

    def _message(self, total: int, general: Reason | None) -> str:
        head = f"0/{total} nodes are available"
        if general is not None and general.text != NO_NODES_TEXT:
            return f"{head}: {general.text}."
        if total == 0:
            return NO_NODES_TEXT
        # Sorted as strings, as kube-scheduler does.
        body = ", ".join(
            sorted(f"{line.count} {_with_numbers(line)}" for line in self._lines.values())
        )
        return f"{head}: {body}." if body else f"{head}:"


def sentence(diagnosis: Diagnosis) -> str:
    """The sentence that people read on the pod (see ``DiagnosisHistogram.summary``)."""
    return diagnosis.summary.message


def _with_never(summary: Summary, never: Never | None) -> Summary:
    """Behind the sentence, as kube-scheduler adds what preemption came to."""
    if never is None:
        return summary
    return msgspec.structs.replace(summary, message=f"{summary.message} {NEVER}{never.text}.")


def _with_numbers(line: _Line) -> str:
    reason = line.reason
    if not reason.resource or reason.need == 0:
        return reason.text
    need = format_value(reason.resource, reason.need)
    have = format_value(reason.resource, max(line.best, 0))
    return f"{reason.text} (need {need}; best node has {have} free)"


def with_numbers(reason: Reason) -> str:
    """One node's reason for people, with its numbers."""
    if not reason.resource or reason.need == 0:
        return reason.text
    need = format_value(reason.resource, reason.need)
    return f"{reason.text} (need {need}; {format_value(reason.resource, max(reason.have, 0))} free)"
