"""The page of one pod: the answer of ``gpuctl why``, its holders and next steps, and its times."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from scheduler.decide.explain import Meaning, Outcome, Refusal
from scheduler.decide.remedy.outlook import Outlook
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.standing import WAITS, Given, asks_of, given_of, standing_of
from scheduler.model.timestamps import epoch
from scheduler.report.dashboard.pages.page import Shape
from scheduler.report.dashboard.pages.waiting_sums import owner_of
from scheduler.report.decisions.api_types import Admitted, Ahead, Decided, PodAnswer
from scheduler.report.decisions.pod_summary import (
    StoredAnswer,
    SummaryRow,
    summary_rows,
    verdict,
)

#: The rejections of the present decision, and of each past one.
NOW_ROWS_MAX: Final = 500
PAST_ROWS_MAX: Final = 20
NAMES_MAX: Final = 20
#: Only its decisions are known.
UNKNOWN: Final = "unknown"


class Queued(Shape, frozen=True, kw_only=True):
    """The place of the pod in the queue, as in the decisions API, with times."""

    place: str
    attempts: int
    since: str
    next_try: str | None
    woken_by: tuple[str, ...]
    position: int
    of: int
    before: tuple[Ahead, ...]


class NodeReason(Shape, frozen=True, kw_only=True):
    """What several nodes say; at most NAMES_MAX of them are named."""

    stage: str
    code: str
    text: str
    count: int
    nodes: tuple[str, ...]
    is_final: bool


class Moment(Shape, frozen=True, kw_only=True):
    """Something that happened to the pod."""

    time: str
    event: str
    text: str = ""
    decision: str = ""


class Command(Shape, frozen=True, kw_only=True):
    """A command to copy, and what it is for."""

    text: str
    command: str


class Summary(Shape, frozen=True, kw_only=True):
    """One part of the summary."""

    name: str
    lines: tuple[str, ...]


class GivenPart(Shape, frozen=True, kw_only=True):
    """The assignment of the pod, every field present (``Given``)."""

    devices: str
    index: str
    cuda_visible_devices: str
    fallback: str
    original: str
    memory: str
    tier_nodes: str
    decision: str
    epoch: str


class PodPage(Shape, frozen=True, kw_only=True):
    """Everything that the scheduler knows about one pod."""

    namespace: str
    pod: str
    uid: str
    owner: str
    scheduler: str
    priority: int
    standing: str
    node: str
    since: str
    asks: dict[str, str]
    headline: str
    summary: tuple[Summary, ...]
    given: GivenPart
    waiting: Queued | None
    now: Outcome | None
    outlook: Outlook | None
    node_reasons: tuple[NodeReason, ...]
    decisions: tuple[Decided, ...]
    admission: Admitted | None
    codes: Mapping[str, Meaning]
    timeline: tuple[Moment, ...]
    commands: tuple[Command, ...]


def pod_page(
    namespace: str,
    name: str,
    pod: Pod | None,
    answer: PodAnswer | None,
    queued: Queued | None,
    now: datetime,
) -> PodPage:
    """The page of a pod by its object and the answer of the decisions API, as far as known."""
    present = answer.now if answer is not None else None
    expected = answer.outlook if answer is not None else None
    decisions = tuple(map(_shortened, answer.decisions)) if answer is not None else ()
    standing = standing_of(pod) if pod is not None else UNKNOWN
    waits = standing == WAITS
    node = pod.node_name if pod is not None else ""
    return PodPage(
        namespace=namespace,
        pod=name,
        uid=pod.uid if pod is not None else next((one.uid for one in decisions), ""),
        owner=owner_of(pod) if pod is not None else "",
        scheduler=pod.scheduler_name if pod is not None else "",
        priority=pod.priority if pod is not None else 0,
        standing=standing,
        node=node,
        since=_since(pod),
        asks=asks_of(pod) if pod is not None else {},
        headline=verdict(expected) if waits and expected is not None else "",
        summary=tuple(
            Summary(name=row.name, lines=row.lines)
            for row in (_summary(pod, answer, now) if waits else ())
        ),
        given=_given(given_of(pod) if pod is not None else Given()),
        waiting=queued,
        now=None if present is None else _cut(present, NOW_ROWS_MAX),
        outlook=expected,
        node_reasons=tuple(_node_reasons(present.refusals if present is not None else ())),
        decisions=decisions,
        admission=answer.admission if answer is not None else None,
        codes=answer.codes if answer is not None else {},
        timeline=timeline(pod, answer, queued),
        commands=tuple(_commands(namespace, name, node)),
    )


def _since(pod: Pod | None) -> str:
    if pod is None:
        return ""
    return (pod.started if pod.node_name else "") or pod.condition.since or pod.created


def _summary(pod: Pod | None, answer: PodAnswer | None, now: datetime) -> Iterator[SummaryRow]:
    if pod is None:
        return iter(())
    condition = pod.condition
    message = condition.message if condition.status == "False" else ""
    codes = answer.codes if answer is not None else {}
    stored = StoredAnswer(asks=asks_of(pod), message=message, codes=codes)
    return summary_rows(stored, answer, now)


def _given(given: Given) -> GivenPart:
    return GivenPart(**{name: getattr(given, name) for name in given.__struct_fields__})


def _cut(outcome: Outcome, most: int) -> Outcome:
    return msgspec.structs.replace(outcome, refusals=outcome.refusals[:most])


def _shortened(decided: Decided) -> Decided:
    if len(decided.outcome.refusals) <= PAST_ROWS_MAX:
        return decided
    outcome = _cut(decided.outcome, PAST_ROWS_MAX)
    return msgspec.structs.replace(decided, outcome=outcome, detail_dropped=True)


def _node_reasons(refusals: tuple[Refusal, ...]) -> list[NodeReason]:
    """The rejections of all nodes by their text, those of the most nodes first."""
    found: dict[tuple[str, str, str, bool], list[str]] = {}
    for one in refusals:
        found.setdefault((one.stage, one.code, one.text, one.is_final), []).append(one.node)
    reasons = [
        NodeReason(
            stage=stage,
            code=code,
            text=text,
            count=len(names),
            nodes=tuple(name for name in names[:NAMES_MAX] if name),
            is_final=is_final,
        )
        for (stage, code, text, is_final), names in found.items()
    ]
    return sorted(reasons, key=lambda one: (-one.count, one.code, one.text))


def timeline(
    pod: Pod | None, answer: PodAnswer | None, queued: Queued | None
) -> tuple[Moment, ...]:
    """What happened to the pod, oldest first."""
    moments: list[Moment] = []
    if pod is not None and pod.created:
        moments.append(Moment(time=pod.created, event="created"))
    moments += _admitted(answer.admission if answer is not None else None)
    if queued is not None:
        moments.append(Moment(time=queued.since, event="queued"))
    for one in reversed(answer.decisions if answer is not None else ()):
        moments += _decided(one)
    if pod is not None and pod.started:
        moments.append(Moment(time=pod.started, event="started", text=pod.node_name))
    return tuple(sorted(moments, key=lambda one: epoch(one.time) or 0.0))


def _admitted(admission: Admitted | None) -> Iterator[Moment]:
    if admission is not None:
        is_less = admission.granted and admission.granted != admission.asked
        change = f"{admission.asked} -> {admission.granted}" if is_less else admission.asked
        yield Moment(time=admission.time, event="admitted", text=f"{admission.result}: {change}")


def _decided(one: Decided) -> Iterator[Moment]:
    outcome = one.outcome
    if not outcome.is_placed:
        yield Moment(time=one.time, event="rejected", text=outcome.message, decision=one.id)
        return
    given = " ".join(filter(None, (outcome.node, outcome.devices, outcome.claims)))
    yield Moment(time=one.time, event="placed", text=given, decision=one.id)
    if one.end:
        text = ": ".join(filter(None, (one.end, one.problem)))
        event = "bound" if one.end == "bound" else "bindFailed"
        yield Moment(time=one.time, event=event, text=text, decision=one.id)


def _commands(namespace: str, name: str, node: str) -> Iterator[Command]:
    for text, words in (
        ("explain it in a terminal", ("gpuctl", "why", "-n", namespace, name)),
        ("its object", ("kubectl", "-n", namespace, "get", "pod", name, "-o", "yaml")),
        ("its state and events", ("kubectl", "-n", namespace, "describe", "pod", name)),
        ("its log", ("kubectl", "-n", namespace, "logs", name) if node else ()),
        ("its node", ("kubectl", "describe", "node", node) if node else ()),
    ):
        if words:
            yield Command(text=text, command=shlex.join(words))
