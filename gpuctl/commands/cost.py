"""``gpuctl cost``: what the GPUs cost, and who holds them, now or over a range of time."""

from __future__ import annotations

import asyncio
from typing import Final

import click
import msgspec

from gpuctl import targets
from gpuctl.capacity import Found
from gpuctl.cluster_access import Access
from gpuctl.cost.answer import read_cost, read_price_file
from gpuctl.cost.prometheus import SINCE, read_range, seconds_of
from gpuctl.cost.rows import LABEL, MODEL, NAMESPACE, NODE, CostRow, Table, cost_rows, table
from gpuctl.cost.show import show_cost
from gpuctl.exporter.idle import Usage, read_usage
from gpuctl.input_error import NotReached
from gpuctl.options import Strict, UsageError, forwarding, output_format, reaching, scoped
from gpuctl.output import formats
from gpuctl.output.table import show
from gpuctl.targets import Scope
from scheduler.model.cost.prices import PriceTable
from scheduler.report.decisions.api_types import API_VERSION, Cost

PROMETHEUS: Final = "prometheus"


class CostAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rows and where they were read: ``leader``, ``api``, ``namespace`` or ``prometheus``.

    ``since`` is the range of Prometheus. ``notes`` say what is missing, one line each. ``cost`` is
    the answer of ``GET /cost``, with exact numbers; null for a range.
    """

    source: str
    by: str
    currency: str
    since: str = ""
    notes: tuple[str, ...] = ()
    rows: tuple[CostRow, ...] = ()
    cost: Cost | None = None


def _by(context: click.Context, _: click.Parameter, value: str) -> str:
    """``namespace``, ``model``, ``node`` or ``label:KEY``."""
    kind, _colon, key = value.partition(":")
    if value in (NAMESPACE, MODEL, NODE) or (kind == LABEL and key):
        return value
    raise UsageError(f"--by {value}: expected namespace, model, node or label:KEY", context)


@click.command(cls=Strict)
@click.option(
    "--by",
    callback=_by,
    default=NAMESPACE,
    show_default=True,
    help="namespace, model, node or label:KEY",
)
@click.option("--prices", "price_file", metavar="FILE", help="price table  [default: the chart's]")
@click.option("--idle", is_flag=True, help="the cost of pods that use none of their GPUs")
@click.option("--metrics-url", metavar="URL", default="", help="metrics of a DCGM exporter")
@click.option("--prometheus", "url", metavar="URL", help="costs of a range of time")
@click.option("--since", metavar="TIME", help=f"the range: 12h, 7d, 4w  [default: {SINCE}]")
@output_format(*formats.ROWS)
@scoped
@forwarding
@reaching
def cost(
    access: Access,
    server: str | None,
    scope: Scope,
    by: str,
    price_file: str | None,
    idle: bool,
    metrics_url: str,
    url: str | None,
    since: str | None,
    output: str,
    forward: bool,
) -> None:
    """Show what the GPUs cost now: by namespace, model, node or label, and what no pod holds.

    GPU H and the amount beside it are those of the pods that run now, since their start. With
    --prometheus they are those of a range of time, also of pods that ended. Asks the leader at
    --server, or through kubectl port-forward if your rights allow it; else it reads nodes and pods,
    or the pods of your namespace, as far as you may.
    """
    _check(url, since, by, scope, price_file)
    if url is not None:
        answer, found = asyncio.run(_range(url, since or SINCE, by, scope, with_use=idle))
        shown = Cost(api_version=API_VERSION, leads=True, time="", currency=answer.currency)
    else:
        prices = read_price_file(price_file) if price_file else None
        wants = asyncio.run(_read(access, server, scope, by, prices, idle=idle, forward=forward))
        usage = asyncio.run(_usage(access, metrics_url)) if idle else None
        keys = asyncio.run(targets.selected_pods(access, scope)) if scope.selector else None
        answer, found = _answer(wants, by, scope, keys, usage)
        shown = wants.answer
    if output in ("json", "yaml", "csv"):
        formats.write(output, answer, answer.rows)
    else:
        show(show_cost(shown, found, by, answer.notes, wide=output == "wide", with_use=idle))


def _check(
    url: str | None, since: str | None, by: str, scope: Scope, price_file: str | None
) -> None:
    if since is not None and url is None:
        raise UsageError("--since is a range of Prometheus: pass --prometheus URL")
    if since is not None and seconds_of(since) is None:
        raise UsageError(f"--since {since}: expected a number with s, m, h, d or w, such as 7d")
    if url is not None and (by not in (NAMESPACE, MODEL) or scope.selector):
        raise UsageError("Prometheus has no labels of pods: use --by namespace or --by model")
    if url is not None and price_file is not None:
        raise UsageError("--prices is of no use with --prometheus: its amounts have prices already")


async def _range(
    url: str, since: str, by: str, scope: Scope, *, with_use: bool
) -> tuple[CostAnswer, Table]:
    found = await read_range(url, since, by, scope.namespace, with_use=with_use)
    answer = CostAnswer(
        source=PROMETHEUS,
        by=by,
        currency=found.currency,
        since=since,
        notes=found.notes,
        rows=tuple(cost_rows(found.table)),
    )
    return answer, found.table


async def _read(
    access: Access,
    server: str | None,
    scope: Scope,
    by: str,
    prices: PriceTable | None,
    *,
    idle: bool,
    forward: bool,
) -> Found[Cost]:
    label = by.partition(":")[2]
    return await read_cost(
        access,
        server,
        scope.namespace,
        prices=prices,
        with_nodes=by == NODE,
        with_pods=_needs_pods(by, scope, idle=idle),
        label=label,
        forward=forward,
    )


def _needs_pods(by: str, scope: Scope, *, idle: bool) -> bool:
    return by not in (NAMESPACE, MODEL) or bool(scope.selector) or idle


async def _usage(access: Access, metrics_url: str) -> Usage:
    """The use of the GPUs; without an exporter it is unknown, and the reason is its source."""
    try:
        return await read_usage(access, metrics_url)
    except NotReached as error:
        return Usage(f"unknown: {error}", {})


def _answer(
    found: Found[Cost], by: str, scope: Scope, keys: set[str] | None, usage: Usage | None
) -> tuple[CostAnswer, Table]:
    cost_now, space = found.answer, scope.namespace
    selects = space is not None or keys is not None
    rows = table(
        cost_now,
        by,
        keep=lambda one: (
            space in (None, one.namespace)
            and (keys is None or f"{one.namespace}/{one.pod}" in keys)
        ),
        used=None if usage is None else usage.used,
        with_pods=_needs_pods(by, scope, idle=usage is not None),
        with_idle=not selects,
    )
    answer = CostAnswer(
        source=found.source,
        by=by,
        currency=cost_now.currency,
        notes=tuple(_notes(found, usage)),
        rows=tuple(cost_rows(rows)),
        cost=cost_now,
    )
    return answer, rows


def _notes(found: Found[Cost], usage: Usage | None) -> list[str]:
    answer, notes = found.answer, list(found.notes)
    if answer.problem:
        notes.append(f"no prices: {answer.problem}")
    elif not answer.currency:
        notes.append(
            "no prices: set the chart's value prices, or pass --prices FILE (docs/cost.md)"
        )
    if not answer.leads:
        notes.append("this replica is not the leader; it may lag behind")
    if usage is not None and not usage.used:
        notes.append(f"held idle is {usage.source}")
    elif usage is not None:
        notes += usage.notes(f"{one.namespace}/{one.pod}" for one in answer.pods)
    return notes
