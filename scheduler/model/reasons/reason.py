"""The reasons why a node, or the whole cluster, rejects a pod.

A reason is a value: a stable code (``model/reasons/reason_code``), a countable text
(kube-scheduler's words, so that existing log searches work), and numbers. A diagnosis has the
reasons of every node, and adds them up to the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from scheduler.model.quantity import format_value
from scheduler.model.reasons.condition_reason import ORDER, ConditionReason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause

__all__ = [
    "IMPOSSIBLE",
    "Diagnosis",
    "DiagnosisHistogram",
    "ImpossibleRequest",
    "Reason",
    "ReasonCode",
    "RequeueCause",
    "Summary",
    "filter_sentence",
    "sentence",
]

#: kube-scheduler's whole message without nodes.
NO_NODES_TEXT = "no nodes available to schedule pods"
#: The beginning of the part of a message that says that no node of this kind fits.
IMPOSSIBLE = "can never be placed here: "


class Reason(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One rejection of one node.

    ``text`` is counted by the histogram; ``need`` and ``have`` are its numbers in the resource's
    base unit (milli for cpu, whole units otherwise), for the resource ``resource``; ``resolvable``
    is False if removing pods could not help (kube-scheduler's UnschedulableAndUnresolvable).
    """

    code: ReasonCode
    text: str
    resource: str = ""
    need: int = 0
    have: int = 0
    resolvable: bool = True


def is_resolvable(reasons: tuple[Reason, ...]) -> bool:
    """Whether the end of pods on a node with these reasons could make it take the pod.

    One reason that removing pods cannot help is enough: kube-scheduler's status of the node is
    then UnschedulableAndUnresolvable.
    """
    return bool(reasons) and all(reason.resolvable for reason in reasons)


class Summary(msgspec.Struct, frozen=True):
    """The summary of a diagnosis: the message, its codes, and the insufficient resources.

    ``lacking`` are the only insufficient resources of some node. ``resolvable`` counts the nodes
    where the end of pods can help. ``main`` is the code that stands for the rejection where there
    is place for one only: of an insufficient resource if there is one, else of the most nodes.
    """

    message: str
    codes: frozenset[ReasonCode]
    lacking: frozenset[str]
    resolvable: int = 0
    main: ReasonCode | None = None


class ImpossibleRequest(msgspec.Struct, frozen=True):
    """Why not even an empty node of any present kind would fit, with numbers.

    ``is_profile`` if no GPU model of the cluster has the MIG profile. Otherwise a larger node would
    help, which an autoscaler may add.
    """

    text: str
    is_profile: bool = False


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Why no node fits.

    ``nodes`` maps a node name to its reasons. ``general`` is set instead if the pod failed before
    any node was checked (kube-scheduler's PreFilter). ``behind`` are reasons that ``general``
    summarizes: lifting one of them lifts the whole. ``impossible`` says that the present nodes
    would not fit if they were empty. ``post_filter`` is the message of PostFilter. ``team`` is the
    one that may take back for the pod what others borrow, once it is entitled to more.
    """

    total: int
    nodes: Mapping[str, tuple[Reason, ...]] = {}
    general: Reason | None = None
    impossible: ImpossibleRequest | None = None
    behind: tuple[Reason, ...] = ()
    post_filter: str = ""
    team: str = ""

    @cached_property
    def summary(self) -> Summary:
        """Computed once, however many pods share this diagnosis."""
        digest = DiagnosisHistogram()
        for reasons in self.nodes.values():
            digest.add(reasons)
        found = _with_behind(digest.summary(self.total, self.general), self.behind)
        return _with_impossible(found, self.impossible)

    def with_impossible(self, impossible: ImpossibleRequest) -> Diagnosis:
        """The same diagnosis for a pod that would not fit on the empty nodes either.

        Equal pods share this one, too.
        """
        extended: Diagnosis | None = vars(self).get("extended")
        if extended is None or extended.impossible != impossible:
            extended = vars(self)["extended"] = msgspec.structs.replace(self, impossible=impossible)
            # The summary is computed already.
            vars(extended)["summary"] = _with_impossible(self.summary, impossible)
        return extended

    def with_post_filter(self, message: str) -> Diagnosis:
        """The same with what PostFilter came to; kube-scheduler adds it behind the sentence."""
        every = f"{self.post_filter} {message}".lstrip()
        extended = msgspec.structs.replace(self, post_filter=every)
        summary = self.summary
        text = f"{summary.message} {message}"
        vars(extended)["summary"] = msgspec.structs.replace(summary, message=text)
        return extended

    def with_team(self, name: str) -> Diagnosis:
        """The same for a pod whose team may take back what others borrow."""
        extended = msgspec.structs.replace(self, team=name)
        vars(extended)["summary"] = self.summary
        return extended

    def codes(self) -> frozenset[ReasonCode]:
        """All codes of the rejection."""
        return self.summary.codes

    def causes(self) -> frozenset[RequeueCause]:
        """The kinds of change after which a retry may succeed."""
        return frozenset(cause for code in self.codes() for cause in code.lifted_by)

    def lacking(self) -> frozenset[str]:
        """The insufficient resources of nodes that passed all other filters."""
        return self.summary.lacking

    def condition_reason(self, *, is_mapped: bool) -> ConditionReason:
        """The reason of the condition ``PodScheduled``."""
        if self.impossible is not None and self.impossible.is_profile:
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
    """One text of the histogram: the number of nodes, and the free amount of each."""

    __slots__ = ("best", "count", "haves", "reason")

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        self.count = 0
        self.best = reason.have
        self.haves: dict[int, int] = {}


def _weight(line: _Line) -> tuple[bool, int, str]:
    code = line.reason.code
    return code.is_about_resource, line.count, code.name


class DiagnosisHistogram:
    """The reasons of many nodes, added up so that one node's can be replaced cheaply.

    Equal texts have equal codes and needs within one diagnosis; only the free amounts differ.
    """

    __slots__ = ("_lines", "_resolvable")

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._resolvable = 0

    def add(self, reasons: tuple[Reason, ...], nodes: int = 1) -> None:
        """Count the reasons of one node, or of several that say the same."""
        self._resolvable += nodes * is_resolvable(reasons)
        for reason in reasons:
            line = self._lines.get(reason.text)
            if line is None:
                line = self._lines[reason.text] = _Line(reason)
            line.count += nodes
            if reason.resource:
                line.haves[reason.have] = line.haves.get(reason.have, 0) + nodes
                if reason.have > line.best:
                    line.best = reason.have

    def take(self, reasons: tuple[Reason, ...]) -> None:
        """Remove one node's reasons; they were added before."""
        self._resolvable -= is_resolvable(reasons)
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
        """The summary.

        The message is kube-scheduler's FitError text, with our numbers in brackets behind a reason.
        Same as ``pkg/scheduler/framework/types.go`` FitError.Error; the numbers never contain a
        comma, because readers split the list at commas.
        """
        codes = frozenset(line.reason.code for line in self._lines.values())
        lacking = frozenset(
            line.reason.resource
            for line in self._lines.values()
            if line.reason.code.is_about_resource
        )
        main = max(self._lines.values(), key=_weight).reason.code if self._lines else None
        if general is not None:
            main = general.code
            codes = frozenset((main,))
        return Summary(self._message(total, general), codes, lacking, self._resolvable, main)

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


def filter_sentence(diagnosis: Diagnosis) -> str:
    """The sentence without what PostFilter came to."""
    return diagnosis.summary.message.removesuffix(f" {diagnosis.post_filter}")


def sentence(diagnosis: Diagnosis) -> str:
    """The message on the pod (see ``DiagnosisHistogram.summary``)."""
    return diagnosis.summary.message


def _with_impossible(summary: Summary, impossible: ImpossibleRequest | None) -> Summary:
    """Appended to the message, as kube-scheduler appends the result of preemption."""
    if impossible is None:
        return summary
    return msgspec.structs.replace(
        summary, message=f"{summary.message} {IMPOSSIBLE}{impossible.text}."
    )


def _with_numbers(line: _Line) -> str:
    reason = line.reason
    if not reason.resource or reason.need == 0:
        return reason.text
    need = format_value(reason.resource, reason.need)
    have = format_value(reason.resource, max(line.best, 0))
    return f"{reason.text} (need {need}; best node has {have} free)"


def with_numbers(reason: Reason) -> str:
    """One node's reason for messages, with its numbers."""
    if not reason.resource or reason.need == 0:
        return reason.text
    need = format_value(reason.resource, reason.need)
    return f"{reason.text} (need {need}; {format_value(reason.resource, max(reason.have, 0))} free)"
