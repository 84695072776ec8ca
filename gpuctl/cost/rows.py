"""The costs as rows: by namespace, model, node or label, and the idle parts.

Sums are exact. What is printed is rounded so that the rows still add up to the rounded sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

import msgspec

from scheduler.model.cost.share import ZERO
from scheduler.report.decisions.api_types import Cost, GpuBill, GpuShare

NAMESPACE, MODEL, NODE, LABEL = "namespace", "model", "node", "label"
STATES: Final = ("free", "stranded", "failed", "unavailable")
#: Pods without the label, and claims without a pod.
NO_VALUE: Final = "(none)"
#: Digits after the point, in money, GPUs and hours.
DIGITS: Final = 4
_HOUR_S: Final = 3600


class Amounts(msgspec.Struct):
    """The exact sums of one row; ``cost`` is that of the hours.

    ``idle`` is the cost, per hour or of the range, of pods that use none of their GPUs, None if no
    exporter has any of them; ``unknown`` is that of pods that no exporter has. ``parts`` are the
    idle GPUs of a model or a node by state.
    """

    pods: int = 0
    gpus: Fraction = ZERO
    per_hour: Fraction = ZERO
    unpriced: Fraction = ZERO
    hours: Fraction = ZERO
    cost: Fraction = ZERO
    degraded_hours: Fraction = ZERO
    saved: Fraction = ZERO
    idle: Fraction | None = None
    unknown: Fraction = ZERO
    parts: dict[str, Fraction] = {}


class CostRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line: a namespace, model, node or value of a label, or what no pod holds.

    Of the latter the name is ``(free)``, ``(stranded)``, ``(failed)`` or ``(unavailable)``. An
    amount of money is null without a price, and ``heldIdle`` if it is unknown. The last four
    are GPUs that no pod holds, of a model or a node.
    """

    name: str
    pods: int | None
    gpus: float | None
    per_hour: float | None
    gpu_hours: float | None
    cost: float | None
    degraded_gpu_hours: float | None
    saved: float | None
    held_idle: float | None = None
    held_unknown: float | None = None
    free: float | None = None
    stranded: float | None = None
    failed: float | None = None
    unavailable: float | None = None


class Table(msgspec.Struct):
    """The rows before they are rounded; ``idle`` is what no pod holds, by state; None if unknown.

    ``is_range``: the hours are those of a range of time, not of the pods that run now.
    """

    rows: dict[str, Amounts]
    idle: dict[str, Amounts] | None
    has_prices: bool
    is_range: bool = False


def table(
    cost: Cost,
    by: str,
    *,
    keep: Callable[[GpuShare], bool] | None = None,
    used: Mapping[str, bool] | None = None,
    with_pods: bool = False,
    with_idle: bool = True,
) -> Table:
    """The rows of an answer, on request from its pods; ``keep`` selects them, ``used`` says which
    pods use their GPUs.
    """
    rows: dict[str, Amounts] = {}
    for one in cost.pods if with_pods or not cost.namespaces else cost.namespaces:
        if keep is None or keep(one):
            row = rows.setdefault(_name(one, by), Amounts())
            _add(row, one, used)
    idle = _idle(cost.models) if with_idle and cost.models else None
    if idle is not None and by in (MODEL, NODE):
        for bill in cost.models if by == MODEL else cost.nodes:
            _add_parts(rows.setdefault(bill.model if by == MODEL else bill.node, Amounts()), bill)
    order = sorted(rows.items(), key=lambda item: (-item[1].per_hour, -item[1].gpus, item[0]))
    return Table(dict(order), idle, bool(cost.currency))


def _name(one: GpuShare, by: str) -> str:
    names = {NAMESPACE: one.namespace, MODEL: one.model, NODE: one.node}
    return names.get(by, one.label or NO_VALUE)


def _add(row: Amounts, one: GpuShare, used: Mapping[str, bool] | None) -> None:
    gpus, price = Fraction(one.gpus), Fraction(one.price or 0)
    seconds = Fraction(one.gpu_seconds)
    row.pods += one.pods
    row.gpus += gpus
    row.per_hour += gpus * price
    row.unpriced += ZERO if one.price else gpus
    row.hours += seconds / _HOUR_S
    row.cost += seconds * price / _HOUR_S
    row.degraded_hours += Fraction(one.degraded_seconds) / _HOUR_S
    row.saved += Fraction(one.saved_seconds) * price / _HOUR_S
    if used is None:
        return
    is_used = used.get(f"{one.namespace}/{one.pod}")
    if is_used is None:
        row.unknown += gpus * price
    else:
        row.idle = (row.idle or ZERO) + (ZERO if is_used else gpus * price)


def _add_parts(row: Amounts, bill: GpuBill) -> None:
    for state in STATES:
        row.parts[state] = row.parts.get(state, ZERO) + Fraction(getattr(bill, state))


def _idle(models: Iterable[GpuBill]) -> dict[str, Amounts]:
    found = {state: Amounts() for state in STATES}
    for one in models:
        price = Fraction(one.price or 0)
        for state in STATES:
            gpus = Fraction(getattr(one, state))
            found[state].gpus += gpus
            found[state].per_hour += gpus * price
            found[state].unpriced += ZERO if one.price else gpus
    return found


# --- rounding ------------------------------------------------------------------------------------


def rounded(values: Sequence[Fraction], digits: int) -> list[Decimal]:
    """Rounded amounts that add up to the rounded sum: the largest remainders are rounded up.

    >>> [str(one) for one in rounded([Fraction(1, 3)] * 3, 2)]
    ['0.34', '0.33', '0.33']
    """
    scale = 10**digits
    floors = [value * scale // 1 for value in values]
    missing = round(sum(values, ZERO) * scale) - sum(floors)
    rests = [value * scale - floor for value, floor in zip(values, floors, strict=True)]
    up = set(sorted(range(len(values)), key=lambda at: (-rests[at], at))[: max(0, missing)])
    return [Decimal(floor + (at in up)).scaleb(-digits) for at, floor in enumerate(floors)]


def cost_rows(found: Table) -> list[CostRow]:
    """The rows of JSON, YAML and CSV."""
    names = [*found.rows, *(f"({state})" for state in found.idle or ())]
    every = [*found.rows.values(), *(found.idle or {}).values()]
    held = len(found.rows)

    def column(values: Iterable[Fraction]) -> list[float]:
        return [float(one) for one in rounded(list(values), DIGITS)]

    gpus = column(one.gpus for one in every)
    per_hour = column(one.per_hour for one in every)
    hours, cost = column(one.hours for one in every), column(one.cost for one in every)
    degraded = column(one.degraded_hours for one in every)
    saved = column(one.saved for one in every)
    rows = []
    for at, (name, one) in enumerate(zip(names, every, strict=True)):
        is_held, is_now = at < held, not found.is_range
        has_time = is_held or found.is_range
        money = found.has_prices
        rows.append(
            CostRow(
                name=name,
                pods=one.pods if is_held and is_now else None,
                gpus=gpus[at] if is_now else None,
                per_hour=per_hour[at] if is_now and money else None,
                gpu_hours=hours[at] if has_time else None,
                cost=cost[at] if has_time and money else None,
                degraded_gpu_hours=degraded[at] if is_held else None,
                saved=saved[at] if is_held and money else None,
                held_idle=_number(one.idle) if money else None,
                held_unknown=_number(one.unknown) if money and is_held and is_now else None,
                **{state: _number(part) for state, part in one.parts.items()},
            )
        )
    return rows


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(rounded([value], DIGITS)[0])
