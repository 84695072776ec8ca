"""The answer of ``gpuctl why``, and its text: the pod's state, the reasons, the next steps."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpuctl.output import text
from gpuctl.output.columns import Columns
from gpuctl.output.outlook import summary
from gpuctl.output.table import headed, show
from gpuctl.output.text import plain, titled
from gpuctl.pods.pod_facts import PodFacts
from scheduler.model.gpu.gpu_memory import in_both_units
from scheduler.model.mig.tier_nodes import parse_where
from scheduler.model.pods.standing import ENDED, GATED, GOES, PLACED, WAITS
from scheduler.model.timestamps import age
from scheduler.report.decisions.api_types import Admitted, Decided, PodAnswer, Waiting
from scheduler.report.decisions.pod_summary import verdict

STATES: Final = {
    PLACED: "is on {node}",
    WAITS: "waits",
    GATED: "waits behind its scheduling gates: {gates}",
    ENDED: "has ended",
    GOES: "is being deleted",
}


class Why(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The whole answer. ``witness`` is absent if only the decisions API was reached."""

    namespace: str
    pod: str
    waits: bool
    witness: PodFacts | None = None
    answer: PodAnswer | None = None
    remarks: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


def show_why(found: Why, *, wide: bool) -> None:
    """Print the answer: a summary of a pending pod, with ``wide`` every detail as well."""
    show(Group(*rendered(found, datetime.now(UTC), wide=wide)))


def rendered(found: Why, now: datetime, *, wide: bool) -> Iterable[RenderableType]:
    """The parts of the answer, in their order."""
    yield from _head(found, now, wide=wide)
    if found.waits and not _is_gated(found):
        yield from summary(found.witness, found.answer, now, wide=wide)
    is_explained = found.answer is not None
    if found.answer is not None:
        yield from _decisions(found, found.answer, now, wide=wide or not found.waits)
    if found.witness is not None:
        shows_events = wide or not found.waits or not is_explained
        yield from _pod_facts(found.witness, now, wide=wide, shows_events=shows_events)
    if found.remarks:
        yield from titled("remarks", Group(*(plain(remark) for remark in found.remarks)))
    if found.more:
        yield from titled(
            text.MORE,
            Group(*(plain(line) for line in found.more)),
        )


def _is_gated(found: Why) -> bool:
    return found.witness is not None and found.witness.standing == GATED


def _head(found: Why, now: datetime, *, wide: bool) -> Iterable[RenderableType]:
    name = f"{found.namespace}/{found.pod}"
    facts = found.witness
    if facts is None:
        yield Text(plain(f"{name} {'waits' if found.waits else 'does not wait'}").plain, "bold")
    else:
        state = STATES[facts.standing].format(node=facts.node, gates=", ".join(facts.gates))
        line = f"{name} {state}"
        if since := age(facts.since, now):
            line += f" (for {since})"
        yield Text(plain(line).plain, style="bold")
    if facts is not None:
        yield from map(plain, facts.notices)
    if found.waits:
        yield from _present(found, now, wide=wide)
    if facts is not None and facts.standing == GATED:
        yield plain("it is not scheduled until its scheduling gates are removed")


def _present(found: Why, now: datetime, *, wide: bool) -> Iterable[RenderableType]:
    """The present answer, or the stored one with its age."""
    facts, answer = found.witness, found.answer
    if answer is not None and answer.outlook is not None:
        yield Text(plain(verdict(answer.outlook)).plain, style="bold")
        if wide and answer.now is not None:
            yield plain(answer.now.message)
        yield ""
        return
    if facts is None or facts.standing != WAITS:
        return
    if facts.message:
        asked = age(facts.asked, now)
        yield plain(f"as of {asked} ago: {facts.message}" if asked else facts.message)
    else:
        yield plain(
            f"it has no condition and no event yet; is {facts.scheduler} running?"
            if not facts.events
            else "it has no condition yet"
        )
    yield ""


def _pod_facts(
    facts: PodFacts, now: datetime, *, wide: bool, shows_events: bool
) -> Iterable[RenderableType]:
    """The content of the pod's object and its events."""
    if wide and facts.standing == WAITS and facts.message:
        yield from _reasons(facts)
    yield from _given(facts, wide=wide)
    if facts.events and shows_events:
        yield from titled("events", _events(facts, now))


def _reasons(facts: PodFacts) -> Iterable[RenderableType]:
    table = headed("NODES", "STAGE", "CODE", "WHY")
    for reason in facts.reasons:
        stage = facts.codes[reason.code].stage if reason.code in facts.codes else "-"
        count = str(reason.count or "all")
        table.add_row(count, plain(stage), reason.code or "-", plain(reason.text))
    yield from titled("the stored condition", table)
    yield from text.advice(facts.codes)


def _given(facts: PodFacts, *, wide: bool) -> Iterable[RenderableType]:
    given = facts.given
    term = f" (term {given.epoch})" if wide and given.epoch else ""
    rows = {
        "devices": given.devices,
        "map index": given.index,
        "map index from": given.index_source,
        "CUDA_VISIBLE_DEVICES": given.cuda_visible_devices,
        "stepped down": given.fallback,
        "requested": given.original,
        "for its GPU memory": given.memory,
        "only nodes with": _nodes_of_tier(given.tier_nodes),
        "decision": given.decision + term,
    }
    grid = Table.grid(padding=(0, 2))
    for name, content in rows.items():
        if content:
            grid.add_row(name, plain(content))
    if grid.row_count:
        yield from titled("given", grid)


def _nodes_of_tier(record: str) -> str:
    """What the nodes of the granted tier must have."""
    where = parse_where(record)
    parts = [f"{key}={value}" for key, value in where.labels]
    if where.memory_mib:
        parts.append(f"GPUs of at least {in_both_units(where.memory_mib)}")
    return ", ".join(parts)


def _once(content: str, message: str) -> str:
    """The content, or a reference if it repeats the message in the first lines."""
    return "as above" if content and content == message else content


def _events(facts: PodFacts, now: datetime) -> Columns:
    table = headed("AGE", "REASON", "FROM", "MESSAGE")
    for event in facts.events:
        times = f" (x{event.count})" if event.count > 1 else ""
        decision = f" [decision {event.decision}]" if event.decision else ""
        table.add_row(
            age(event.time, now),
            plain(event.reason),
            plain(event.source),
            plain(_once(event.text, facts.message) + times + decision),
        )
    return table


def _decisions(
    found: Why, answer: PodAnswer, now: datetime, *, wide: bool
) -> Iterable[RenderableType]:
    """The answer of the decisions API."""
    message = found.witness.message if found.witness else ""
    last = answer.decisions[0] if answer.decisions else None
    outcome = answer.now or (last.outcome if last else None)
    if outcome is not None and outcome.is_placed:
        title = "it would now get" if answer.now is not None else "its decision"
        yield from titled(title, text.placement(outcome))
        if answer.now is None and last is not None and last.ranking is not None:
            yield from text.ranking(last.ranking)
    elif outcome is not None:
        if wide:
            yield ""
            yield text.refusals(outcome, wide=True)
        if outcome.preemption is not None:
            yield from text.preemption(outcome.preemption, wide=wide)
        if wide:
            codes = _codes(outcome.refusals, answer)
            yield from text.advice({code: answer.codes[code] for code in codes})
    if answer.admission is not None:
        yield from titled("at admission", _admitted(answer.admission, now))
    if wide and answer.waiting is not None:
        yield ""
        yield plain(_queued(answer.waiting))
    if wide and answer.decisions:
        yield from titled("decisions", _history(answer.decisions, message, now))


def _codes(refusals: Iterable[object], answer: PodAnswer) -> list[str]:
    codes = dict.fromkeys(getattr(refusal, "code", "") for refusal in refusals)
    return [code for code in codes if code in answer.codes]


def _queued(waiting: Waiting) -> str:
    tried = f"tried {waiting.attempts} time{'' if waiting.attempts == 1 else 's'}"
    line = f"in the queue for {waiting.waits_s:.0f} s ({waiting.place}), {tried}"
    if waiting.next_try_s is not None and waiting.place == "backoff":
        line += f", the next one in {waiting.next_try_s:.1f} s"
    return line


def _admitted(found: Admitted, now: datetime) -> RenderableType:
    change = f"{found.asked}->{found.granted}" if found.granted != found.asked else found.asked
    result = change if found.granted else found.asked
    lines = [f"{found.result}: {result} ({age(found.time, now)} ago)"]
    lines += [f"{attempt.tier}: {attempt.message}" for attempt in found.tried]
    return Group(*map(plain, lines))


def _history(decisions: Iterable[Decided], message: str, now: datetime) -> Columns:
    table = headed("AGE", "DECISION", "TRY", "OUTCOME")
    for decided in decisions:
        line = _once(text.summary(decided.outcome), message)
        if decided.end:
            line += f"; Binding {decided.end}" + (f": {decided.problem}" if decided.problem else "")
        age_text = age(decided.time, now)
        table.add_row(age_text, plain(decided.id), str(decided.attempt), plain(line))
    return table
