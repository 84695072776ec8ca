"""The answer about a pending pod in a few lines: what is closest, who holds it, and what to do.

``gpuctl why`` and the dashboard show the same lines. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from scheduler.decide.explain import Meaning
from scheduler.decide.rejection_message import Part, parts
from scheduler.decide.remedy.concerned_objects import ConcernedObjects, of_message, of_refusals
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


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the pod's object says: its requests, and the message of its condition."""

    asks: Mapping[str, str] = {}
    message: str = ""
    codes: Mapping[str, Meaning] = {}


class SummaryRow(msgspec.Struct, frozen=True):
    """One part of the summary: its name, and its lines."""

    name: str
    lines: tuple[str, ...]


def summary_rows(
    stored: StoredAnswer, answer: PodAnswer | None, now: datetime
) -> Iterator[SummaryRow]:
    """The summary of a pending pod; without an answer, of its stored condition."""
    outcome = answer.now if answer is not None else None
    expected = answer.outlook if answer is not None else None
    if stored.asks:
        yield SummaryRow("asks", (_amounts(stored.asks),))
    if expected is not None and expected.closest is not None:
        yield SummaryRow("closest", tuple(_closest(expected.closest, now)))
    message = outcome.message if outcome is not None else stored.message
    if outcome is None or not outcome.is_placed:
        yield SummaryRow("nodes", tuple(_reasons(parts(message))))
    if answer is not None and answer.waiting is not None and answer.waiting.position:
        yield SummaryRow("queue", (_queue(answer.waiting),))
    codes = answer.codes if outcome is not None and answer is not None else {}
    codes = codes or stored.codes
    about = of_refusals(outcome.refusals) if outcome is not None else of_message(parts(message))
    yield SummaryRow("do one", tuple(steps(expected, codes, _ordered(message), about)))


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
