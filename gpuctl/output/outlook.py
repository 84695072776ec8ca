"""The short answer of ``gpuctl why``: now, what is closest, who holds it, and what to do.

It fits 60 columns. With the leader's answer it is about the present; else about the stored
condition, with its age.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gpuctl.concerned_objects import ConcernedObjects, of_message, of_refusals
from gpuctl.output.text import plain
from gpuctl.pod_facts import PodFacts
from scheduler.decide.explain import Meaning
from scheduler.decide.rejection_message import Part, parts
from scheduler.decide.remedy.outlook import CanStart, Closest, Outlook
from scheduler.decide.remedy.search import TRIED
from scheduler.model import well_known
from scheduler.model.timestamps import age
from scheduler.report.decisions.api_types import PodAnswer, Waiting

VERDICTS: Final = {
    CanStart.NOW: "CAN start now: {}",
    CanStart.LATER: "CAN start later: {}",
    CanStart.AFTER_CHANGE: "cannot start as it is: {}",
    CanStart.NEVER: "can NEVER start here, even on empty nodes: it {}",
}
REASONS_MAX: Final = 6
HOLDERS_MAX: Final = 4
STEPS_MAX: Final = 4
_NODES: Final = re.compile(r"^node\(s\) (?:had |were )?")
_ORDINALS: Final = {1: "st", 2: "nd", 3: "rd"}


def verdict(found: Outlook) -> str:
    """Whether the pod can start, in one sentence."""
    return VERDICTS[found.can_start].format(found.text)


def summary(
    facts: PodFacts | None, answer: PodAnswer | None, now: datetime, *, wide: bool = False
) -> Iterator[RenderableType]:
    """The lines of a pending pod: a name at the left, its content at the right."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, lines in _rows(facts, answer, now, wide=wide):
        for number, line in enumerate(lines):
            grid.add_row(Text("" if number else name, style="bold"), plain(line))
    if grid.row_count:
        yield grid


def _rows(
    facts: PodFacts | None, answer: PodAnswer | None, now: datetime, *, wide: bool
) -> Iterator[tuple[str, list[str]]]:
    outcome = answer.now if answer is not None else None
    expected = answer.outlook if answer is not None else None
    if facts is not None and facts.asks:
        yield "asks", [_amounts(facts.asks)]
    if expected is not None and expected.closest is not None:
        yield "closest", list(_closest(expected.closest, now))
    message = outcome.message if outcome is not None else facts.message if facts else ""
    if outcome is None or not outcome.is_placed:
        yield "nodes", list(_reasons(parts(message)))
    if answer is not None and answer.waiting is not None and answer.waiting.position:
        yield "queue", [_queue(answer.waiting)]
    codes = answer.codes if outcome is not None and answer is not None else {}
    codes = codes or (facts.codes if facts else {})
    about = of_refusals(outcome.refusals) if outcome is not None else of_message(parts(message))
    yield "do one", steps(expected, codes, _ordered(message), about)
    if outcome is not None:
        yield "checked", [_checked(answer, wide=wide)]


def _closest(found: Closest, now: datetime) -> Iterator[str]:
    yield f"{found.node}: {found.text}"
    shown = found.holders[:HOLDERS_MAX]
    for number, holder in enumerate(shown):
        since = age(holder.since, now)
        details = f"{holder.holds}, {since}" if since else holder.holds
        yield f"{'  ' if number else ''}held by {holder.namespace}/{holder.pod} ({details})".strip()
    if found.elsewhere:
        pods = f"{found.elsewhere} pod{'s' * (found.elsewhere > 1)} of other namespaces"
        yield f"{'and' if shown else 'held by'} {pods}"
    more = found.others + len(found.holders) - len(shown)
    if more:
        yield f"and {more} more pod{'s' * (more > 1)}"


def _reasons(found: Sequence[Part]) -> Iterator[str]:
    """What the nodes say, those of the most nodes first."""
    by_count = sorted(found, key=lambda part: -part.count)
    for part in by_count[:REASONS_MAX]:
        yield f"{part.count} {_NODES.sub('', part.text)}" if part.count else part.text
    if len(by_count) > REASONS_MAX:
        yield f"{sum(part.count for part in by_count[REASONS_MAX:])} for other reasons"


def _ordered(message: str) -> list[str]:
    """The codes of a message, those of the most nodes first."""
    found = sorted(parts(message), key=lambda part: -part.count)
    return list(dict.fromkeys(part.code.name for part in found if part.code is not None))


def _queue(waiting: Waiting) -> str:
    line = f"{_ordinal(waiting.position)} of {waiting.of} by priority and age"
    if waiting.before:
        nearest = waiting.before[0]
        asks = _amounts({resource: str(count) for resource, count in nearest.asks.items()})
        line += f"; before it: {nearest.namespace}/{nearest.pod}" + (f" ({asks})" if asks else "")
    return line


def _ordinal(number: int) -> str:
    """
    >>> _ordinal(2), _ordinal(11), _ordinal(23)
    ('2nd', '11th', '23rd')
    """
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else _ORDINALS.get(number % 10, 'th')}"


def steps(
    expected: Outlook | None,
    codes: Mapping[str, Meaning],
    order: Iterable[str],
    about: Mapping[str, ConcernedObjects],
) -> list[str]:
    """Each remedy with its effect; then the next step of the codes without one, with the objects
    that it is about.

    Beside a remedy, the next steps of codes whose edits were tried are left out: they are not
    enough alone.
    """
    remedies = expected.remedies if expected is not None else ()
    lines = [f"{remedy.text} -> starts now on {remedy.node}" for remedy in remedies]
    remedied = {code for remedy in remedies for code in remedy.codes}
    left = (code for code in order if code in codes and code not in remedied)
    if remedies:
        left = (code for code in left if code not in TRIED)
    shown = list(islice(left, STEPS_MAX))
    found = {code: about.get(code) or ConcernedObjects(code) for code in shown}
    return [*lines, *(found[code].named(codes[code].next_step) for code in shown)]


def _amounts(amounts: Mapping[str, str]) -> str:
    """``8 x nvidia.com/gpu, 256Gi memory``."""
    return ", ".join(
        f"{amount} x {resource}" if well_known.is_gpu_device(resource) else f"{amount} {resource}"
        for resource, amount in amounts.items()
    )


def _checked(answer: PodAnswer | None, *, wide: bool) -> str:
    leads = answer is not None and answer.leads
    last = f", last decision {answer.decisions[0].id}" if answer and answer.decisions else ""
    by = f"now, by {'the leader' if leads else 'a standby'}{last}"
    searched = answer.outlook.searched if answer is not None and answer.outlook else None
    if searched is not None:
        by += f"; searched {searched.parts:,} of {searched.of:,} nodes and edits"
    return f"{by}{'' if wide else '; more: -o wide'}"
