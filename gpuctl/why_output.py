"""The answer of ``gpuctl why`` as text: first what is so, then why, then what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpuctl import text_output
from gpuctl.pod_facts import ENDED, GATED, GOES, PLACED, WAITS, PodFacts, age
from gpuctl.table import headed, show
from gpuctl.text_output import plain, titled
from scheduler.report.decisions.api_types import Admitted, Decided, PodAnswer, Waiting

if TYPE_CHECKING:
    from gpuctl.why import Why

STANDS: Final = {
    PLACED: "is on {node}",
    WAITS: "waits",
    GATED: "waits behind its scheduling gates: {gates}",
    ENDED: "has ended",
    GOES: "is being deleted",
}
OURS: Final = "gpu-scheduler"


def show_why(found: Why, *, wide: bool) -> None:
    """Print the whole answer."""
    now = datetime.now(UTC)
    parts: list[RenderableType] = [*_head(found, now)]
    if found.answer is not None:
        parts += _decided(found, found.answer, now, wide=wide)
    if found.witness is not None:
        parts += _told(found.witness, now, is_explained=found.answer is not None)
    if found.remarks:
        parts += titled("remarks", Group(*(plain(remark) for remark in found.remarks)))
    if found.more:
        parts += titled(
            "more: every node's answer, tiers, scores (the first in another terminal)",
            Group(*(plain(line) for line in found.more)),
        )
    show(Group(*parts))


def _head(found: Why, now: datetime) -> Iterable[RenderableType]:
    name = f"{found.namespace}/{found.pod}"
    witness = found.witness
    if witness is None:
        yield plain(f"{name} {'waits' if found.waits else 'does not wait'}")
        return
    stands = STANDS[witness.standing].format(node=witness.node, gates=", ".join(witness.gates))
    line = f"{name} {stands}"
    if since := age(witness.since, now):
        line += f" (for {since})"
    yield Text(plain(line).plain, style="bold")
    if witness.scheduler != OURS and not witness.given.decision and found.answer is None:
        yield plain(f"its scheduler is {witness.scheduler}, not {OURS}; these are its words")
    if witness.message and found.waits:
        yield ""
        yield plain(witness.message)
    if witness.standing == GATED:
        yield plain("whoever set the gates takes them away; nothing is decided before")


def _told(witness: PodFacts, now: datetime, *, is_explained: bool) -> Iterable[RenderableType]:
    """What the pod's own object and events say."""
    if not is_explained and witness.standing == WAITS:
        yield from _reasons(witness)
    yield from _given(witness)
    if witness.events:
        yield from titled("events", _events(witness, now))


def _reasons(witness: PodFacts) -> Iterable[RenderableType]:
    if not witness.message:
        yield ""
        yield plain(
            f"nothing is said about it yet; is {witness.scheduler} running?"
            if not witness.events
            else "nothing is said about it yet"
        )
        return
    table = headed("NODES", "STAGE", "CODE", "WHY")
    for one in witness.reasons:
        stage = witness.codes[one.code].stage if one.code in witness.codes else "-"
        table.add_row(str(one.count or "all"), plain(stage), one.code or "-", plain(one.text))
    yield ""
    yield table
    yield from text_output.advice(witness.codes)


def _given(witness: PodFacts) -> Iterable[RenderableType]:
    given = witness.given
    rows = {
        "devices": given.devices,
        "map index": given.index,
        "CUDA_VISIBLE_DEVICES": given.cuda_visible_devices,
        "stepped down": given.fallback,
        "asked for": given.original,
        "for its GPU memory": given.memory,
        "its tier is on nodes with": given.tier_nodes,
        "decision": given.decision + (f" (term {given.epoch})" if given.epoch else ""),
    }
    grid = Table.grid(padding=(0, 2))
    for what, text in rows.items():
        if text:
            grid.add_row(what, plain(text))
    if grid.row_count:
        yield from titled("given", grid)


def _once(text: str, message: str) -> str:
    """A text, unless it stands at the top already."""
    return "as above" if text and text == message else text


def _events(witness: PodFacts, now: datetime) -> Table:
    table = headed("AGE", "REASON", "FROM", "MESSAGE")
    for one in witness.events:
        times = f" (x{one.count})" if one.count > 1 else ""
        decision = f" [decision {one.decision}]" if one.decision else ""
        table.add_row(
            age(one.time, now),
            plain(one.reason),
            plain(one.source),
            plain(_once(one.text, witness.message) + times + decision),
        )
    return table


def _decided(
    found: Why, answer: PodAnswer, now: datetime, *, wide: bool
) -> Iterable[RenderableType]:
    """What the decisions API adds."""
    message = found.witness.message if found.witness else ""
    if answer.waiting is not None:
        yield ""
        yield plain(_queued(answer.waiting))
    last = answer.decisions[0] if answer.decisions else None
    outcome = answer.now or (last.outcome if last else None)
    if outcome is not None and outcome.is_placed:
        word = "it would now get" if answer.now is not None else "was decided to get"
        yield from titled(word, text_output.given(outcome))
        if answer.now is None and last is not None and last.ranking is not None:
            yield from text_output.ranking(last.ranking)
    elif outcome is not None:
        yield ""
        yield text_output.refusals(outcome, wide=wide)
        yield from text_output.advice(
            {code: answer.codes[code] for code in _codes(outcome.refusals, answer)}
        )
    if answer.admission is not None:
        yield from titled("at admission", _admitted(answer.admission, now))
    if answer.decisions:
        yield from titled("decisions", _history(answer.decisions, message, now))


def _codes(refusals: Iterable[object], answer: PodAnswer) -> list[str]:
    seen = dict.fromkeys(getattr(one, "code", "") for one in refusals)
    return [code for code in seen if code in answer.codes]


def _queued(waiting: Waiting) -> str:
    tried = f"tried {waiting.attempts} time{'' if waiting.attempts == 1 else 's'}"
    line = f"in the queue for {waiting.waits_s:.0f} s ({waiting.place}), {tried}"
    if waiting.next_try_s is not None and waiting.place == "backoff":
        line += f", the next one in {waiting.next_try_s:.1f} s"
    return line


def _admitted(found: Admitted, now: datetime) -> RenderableType:
    change = f"{found.asked}->{found.granted}" if found.granted != found.asked else found.asked
    lines = [plain(f"{found.result}: {change if found.granted else found.asked}"
                   f" ({age(found.time, now)} ago)")]  # fmt: skip
    lines += [plain(f"{one.tier}: {one.message}") for one in found.tried]
    return Group(*lines)


def _history(decisions: Iterable[Decided], message: str, now: datetime) -> Table:
    table = headed("AGE", "DECISION", "TRY", "OUTCOME")
    for one in decisions:
        text = _once(text_output.summary(one.outcome), message)
        if one.end:
            text += f"; Binding {one.end}" + (f": {one.problem}" if one.problem else "")
        table.add_row(age(one.time, now), plain(one.id), str(one.attempt), plain(text))
    return table
