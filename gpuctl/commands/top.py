"""``gpuctl top``: the GPUs of the cluster, and the namespaces, nodes and pods that hold them.

A device is held from the scheduler's decision on, used or not; only ``--idle`` asks the DCGM
exporter for its use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import click
import msgspec

from gpuctl import targets
from gpuctl.capacity import CapacityAnswer, read_capacity
from gpuctl.cluster_access import Access
from gpuctl.exporter.idle import Usage, read_usage
from gpuctl.options import (
    WATCH_S,
    Strict,
    UsageError,
    forwarding,
    output_format,
    reaching,
    scoped,
)
from gpuctl.output import formats
from gpuctl.output import top as top_output
from gpuctl.output.table import show
from gpuctl.targets import Scope
from scheduler.report.decisions.api_types import Capacity
from scheduler.state.capacity.node_devices import GPU, DeviceAmount, Holder, NodeDevices

CLUSTER, NODES, PODS, NAMESPACES = "cluster", "nodes", "pods", "namespaces"
_DETAIL: Final = {NODES: "holders=1", PODS: "holders=1"}


def _gpus(one: NodeDevices) -> DeviceAmount:
    return one.devices.get(GPU, DeviceAmount())


#: Order of nodes: ``frag`` has those first that are neither empty nor full.
SORTS: Final[dict[str, Callable[[NodeDevices], tuple[Any, ...]]]] = {
    "name": lambda one: (one.node,),
    "free": lambda one: (-_gpus(one).free, one.node),
    "held": lambda one: (-_gpus(one).held, one.node),
    "frag": lambda one: (not (_gpus(one).held and _gpus(one).free), -_gpus(one).held, one.node),
}


@click.command(cls=Strict)
@click.argument("what", type=click.Choice([CLUSTER, NODES, PODS, NAMESPACES]), default=CLUSTER)
@click.option(
    "--sort", type=click.Choice(list(SORTS)), default="name", show_default=True, help="of nodes"
)
@click.option("--idle", is_flag=True, help="only pods that use none of their GPUs: top pods --idle")
@click.option("--metrics-url", metavar="URL", default="", help="metrics of a DCGM exporter")
@click.option("-w", "--watch", is_flag=True, help="repeat every 10 s until interrupted")
@output_format(*formats.ROWS)
@scoped
@forwarding
@reaching
def top(
    access: Access,
    server: str | None,
    scope: Scope,
    what: str,
    sort: str,
    idle: bool,
    metrics_url: str,
    watch: bool,
    output: str,
    forward: bool,
) -> None:
    """Show which namespaces, nodes or pods hold GPUs and slices, what is free, and what waits.

    Asks the leader at --server, or through kubectl port-forward if your rights allow it; else it
    reads nodes and pods, or the pods of your namespace, as far as you may. All namespaces are
    shown unless -n selects one; -l selects pods.
    """
    if scope.selector and what not in (NODES, PODS):
        raise UsageError("-l selects pods: gpuctl top pods -l LABELS")
    if (idle or metrics_url) and what != PODS:
        raise UsageError("--idle selects pods: gpuctl top pods --idle")
    if watch and output not in ("table", "wide"):
        raise UsageError("--watch prints a table only", click.get_current_context())

    def ask() -> CapacityAnswer:
        answer = asyncio.run(_ask(access, server, scope, what, forward=forward))
        return _idle(answer, asyncio.run(read_usage(access, metrics_url))) if idle else answer

    _write(ask(), what, sort, output, idle=idle)
    while watch:
        time.sleep(WATCH_S)
        answer = ask()
        click.clear()
        _write(answer, what, sort, output, idle=idle)


def _write(answer: CapacityAnswer, what: str, sort: str, output: str, *, idle: bool) -> None:
    capacity = answer.capacity
    nodes = sorted(capacity.nodes, key=SORTS[sort])
    if output in ("json", "yaml", "csv"):
        formats.write(output, answer, _rows(what, capacity, nodes))
    elif what == NODES:
        show(top_output.nodes(answer, nodes, wide=output == "wide"))
    elif what == PODS:
        show(top_output.pods(answer, is_idle=idle))
    elif what == NAMESPACES:
        show(top_output.by_namespace(answer))
    else:
        show(top_output.overview(answer))


def _idle(answer: CapacityAnswer, usage: Usage) -> CapacityAnswer:
    """The pods of the answer that use none of their GPUs, and what that is based on."""
    nodes = answer.capacity.nodes
    keys = [f"{one.namespace}/{one.pod}" for node in nodes for one in node.holders]
    capacity = _kept(answer.capacity, lambda namespace, pod: usage.is_idle(f"{namespace}/{pod}"))
    capacity = msgspec.structs.replace(capacity, waiting=(), waiting_left_out=0)
    notes = (*answer.notes, *usage.notes(keys))
    return msgspec.structs.replace(answer, capacity=capacity, notes=notes)


def _rows(what: str, capacity: Capacity, nodes: Sequence[NodeDevices]) -> Sequence[msgspec.Struct]:
    if what == NODES:
        return top_output.node_rows(nodes)
    return (
        top_output.pod_rows(capacity)
        if what == PODS
        else top_output.namespace_rows(capacity.namespaces)
    )


async def _ask(
    access: Access, server: str | None, scope: Scope, what: str, *, forward: bool
) -> CapacityAnswer:
    detail = _DETAIL.get(what, "")
    answer = await read_capacity(access, server, scope.namespace, detail=detail, forward=forward)
    capacity = answer.capacity
    if scope.selector:
        capacity = _of_pods(capacity, await targets.selected_pods(access, scope))
    if scope.namespace is not None:
        capacity = _of_namespace(capacity, scope.namespace)
    return msgspec.structs.replace(answer, capacity=capacity)


def _of_namespace(capacity: Capacity, name: str) -> Capacity:
    """What is about one namespace."""
    found = _kept(capacity, lambda namespace, _: namespace == name)
    own = tuple(one for one in capacity.namespaces if one.namespace == name)
    return msgspec.structs.replace(found, namespaces=own)


def _of_pods(capacity: Capacity, keys: set[str]) -> Capacity:
    return _kept(capacity, lambda namespace, pod: f"{namespace}/{pod}" in keys)


def _kept(capacity: Capacity, keep: Callable[[str, str], bool]) -> Capacity:
    """The capacity with these holders and waiting pods."""

    def holders(one: NodeDevices) -> tuple[Holder, ...]:
        return tuple(holder for holder in one.holders if keep(holder.namespace, holder.pod))

    return msgspec.structs.replace(
        capacity,
        nodes=tuple(msgspec.structs.replace(one, holders=holders(one)) for one in capacity.nodes),
        waiting=tuple(one for one in capacity.waiting if keep(one.namespace, one.pod)),
    )
