"""The short answer of ``gpuctl why``: now, what is closest, who holds it, and what to do.

It fits 60 columns. With the leader's answer it is about the present; else about the stored
condition, with its age.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gpuctl.output.text import plain
from gpuctl.pods.pod_facts import PodFacts
from scheduler.report.decisions.api_types import PodAnswer
from scheduler.report.decisions.pod_summary import StoredAnswer, summary_rows


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
    stored = (
        StoredAnswer()
        if facts is None
        else StoredAnswer(asks=facts.asks, message=facts.message, codes=facts.codes)
    )
    for row in summary_rows(stored, answer, now):
        yield row.name, list(row.lines)
    if answer is not None and answer.now is not None:
        yield "checked", [_checked(answer, wide=wide)]


def _checked(answer: PodAnswer | None, *, wide: bool) -> str:
    leads = answer is not None and answer.leads
    last = f", last decision {answer.decisions[0].id}" if answer and answer.decisions else ""
    by = f"now, by {'the leader' if leads else 'a standby'}{last}"
    searched = answer.outlook.searched if answer is not None and answer.outlook else None
    if searched is not None:
        by += f"; searched {searched.parts:,} of {searched.of:,} nodes and edits"
    return f"{by}{'' if wide else '; more: -o wide'}"
