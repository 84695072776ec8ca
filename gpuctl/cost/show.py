"""The tables of ``gpuctl cost``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from gpuctl.cost.rows import MODEL, STATES, Amounts, Table, rounded
from gpuctl.device_words import counted
from gpuctl.output.columns import Columns
from gpuctl.output.text import plain
from scheduler.model.cost.share import ZERO
from scheduler.model.gpu.board_name import board
from scheduler.report.decisions.api_types import Cost

NOTHING: Final = "-"
UNKNOWN: Final = "unknown"
#: Digits after the point.
DIGITS: Final = 2
#: Columns that a narrow terminal drops, the last first.
DETAILS: Final = ("GPU H", "PODS", "DEGRADED H", "SAVED", *reversed([*map(str.upper, STATES)]))


def show_cost(
    cost: Cost, found: Table, by: str, notes: Sequence[str], *, wide: bool, with_use: bool
) -> RenderableType:
    """The bill in a line, the rows, the idle parts, and the notes."""
    parts: list[RenderableType] = []
    if found.idle is not None:
        parts += [Text(bill_line(cost, found), style="bold"), ""]
    parts.append(_rows(cost.currency, found, by, wide=wide, with_use=with_use))
    lines = [*_extra(found), *notes]
    if lines:
        parts += ["", *(plain(f"note: {one}") for one in lines)]
    return Group(*parts)


def bill_line(cost: Cost, found: Table) -> str:
    """All GPUs, and what they cost: held and idle add up to the bill."""
    idle = found.idle or {}
    parts = [sum((one.per_hour for one in found.rows.values()), ZERO)]
    parts += [idle[state].per_hour for state in STATES]
    gpus = sum(one.gpus for one in cost.models)
    head = [counted(cost.nodes_total, "node")] if cost.nodes_total else []
    head.append(counted(gpus, "GPU")) if cost.models else None
    if found.is_range:
        hours = sum((one.hours for one in (*found.rows.values(), *idle.values())), ZERO)
        head.append(f"{_text(hours)} GPU hours")
        parts = [sum((one.cost for one in found.rows.values()), ZERO)]
        parts += [idle[state].cost for state in STATES]
    if not found.has_prices:
        return "  ".join(head)
    shown = [_money(one) for one in rounded([*parts], DIGITS)]
    total = _money(sum(rounded(parts, DIGITS)))
    unit = cost.currency if found.is_range else f"{cost.currency} per hour"
    named = zip(("held", *STATES), parts, shown, strict=True)
    split = ", ".join(f"{name} {text}" for name, part, text in named if part or name == "held")
    return "  ".join((*head, f"{total} {unit}: {split}"))


def _rows(currency: str, found: Table, by: str, *, wide: bool, with_use: bool) -> RenderableType:
    names = {**found.rows, **{f"({state})": one for state, one in (found.idle or {}).items()}}
    every = [*names.values()]
    if not any(one.gpus or one.hours for one in every):
        return Text("no pod holds a GPU")
    columns = _columns(currency, found, every)
    if with_use and found.has_prices:
        columns["HELD IDLE"] = [_use(one) for one in every]
    if wide and any(one.parts for one in every):
        for state in STATES:
            columns[state.upper()] = _column([one.parts.get(state, ZERO) for one in every])
    rows = Columns(
        by.partition(":")[0].upper(),
        *columns,
        optional=[name for name in DETAILS if name in columns],
    )
    for at, (name, one) in enumerate(names.items()):
        if name in found.rows or one.gpus or one.hours:
            title = board(name, 0) if by == MODEL and name in found.rows else name
            rows.add_row(plain(title), *(cells[at] for cells in columns.values()))
    return rows


def _columns(currency: str, found: Table, every: Sequence[Amounts]) -> dict[str, Sequence[str]]:
    columns: dict[str, Sequence[str]] = {}
    if not found.is_range:
        columns["PODS"] = [str(one.pods or NOTHING) for one in every]
        columns["GPUS"] = _column([one.gpus for one in every])
        if found.has_prices:
            columns[f"{currency}/H"] = _column([one.per_hour for one in every])
    columns["GPU H"] = _column([one.hours for one in every])
    if found.has_prices:
        columns[currency] = _column([one.cost for one in every])
    if any(one.degraded_hours for one in every):
        columns["DEGRADED H"] = _column([one.degraded_hours for one in every])
        if found.has_prices:
            columns["SAVED"] = _column([one.saved for one in every])
    return columns


def _use(one: Amounts) -> str:
    if one.idle is None:
        return UNKNOWN if one.unknown else NOTHING
    text = _money(rounded([one.idle], DIGITS)[0])
    return f"{text} + ?" if one.unknown else text


def _column(values: Sequence[Fraction]) -> list[str]:
    """Cells that add up to the rounded sum."""
    amounts = rounded(values, DIGITS)
    return [
        NOTHING if not value else _money(amount)
        for value, amount in zip(values, amounts, strict=True)
    ]


def _money(amount: object) -> str:
    return f"{amount:,}"


def _text(value: Fraction) -> str:
    return _money(rounded([value], DIGITS)[0])


def _extra(found: Table) -> Iterator[str]:
    """What the numbers leave out."""
    unpriced = sum(
        (one.unpriced for one in (*found.rows.values(), *(found.idle or {}).values())), ZERO
    )
    if found.has_prices and unpriced:
        yield f"{_text(unpriced)} GPUs have no price (docs/cost.md)"
