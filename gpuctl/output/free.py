"""Tables of ``gpuctl free``: what would start now, and what one's namespace may still use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from gpuctl.capacity import CapacityAnswer
from gpuctl.output.columns import Columns
from gpuctl.output.devices import NOTHING, board, counted, listed
from gpuctl.output.text import plain
from gpuctl.output.top import noted, waiting_line
from scheduler.state.capacity.node_devices import GPU, NodeDevices, slice_size
from scheduler.state.capacity.summary import SIZES, ModelCapacity, NamespaceCapacity

TAINTS_SHOWN: int = 3


class FreeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of CSV: how many pods that request ``size`` of a device would start now."""

    product: str
    memory_mib: int
    device: str
    size: int
    pods: int


def free_rows(models: Iterable[ModelCapacity]) -> list[FreeRow]:
    """A row per board, unit and size."""
    return [
        FreeRow(
            product=model.product,
            memory_mib=model.memory_mib,
            device=unit,
            size=size,
            pods=model.fits.get(str(size), 0) if unit == GPU else amount.free,
        )
        for model in models
        for unit, amount in model.devices.items()
        for size in (SIZES if unit == GPU else (1,))
    ]


def free(answer: CapacityAnswer) -> RenderableType:
    """The room by board, then lines about quota, the largest job and the queue."""
    capacity = answer.capacity
    parts: list[RenderableType] = []
    if capacity.models:
        parts += [_room(capacity.models), ""]
    elif capacity.nodes_total:
        parts += [Text("no node has GPUs"), ""]
    lines = [*_lines(answer)]
    return Group(*parts, *map(plain, lines), *noted(answer))


def _room(models: Iterable[ModelCapacity]) -> Columns:
    headers = (f"{SIZES[0]} at once", *(str(size) for size in SIZES[1:]))
    table = Columns("MODEL", *headers, "SLICES", prose=("SLICES",))
    for model in models:
        fits = [str(model.fits[str(size)]) if model.fits else NOTHING for size in SIZES]
        slices = {unit: amount.free for unit, amount in model.devices.items() if unit != GPU}
        name = board(model.product, model.memory_mib)
        table.add_row(plain(name), *fits, listed(slices))
    return table


def _lines(answer: CapacityAnswer) -> Iterator[str]:
    capacity = answer.capacity
    if capacity.models:
        yield "pods that start now if they request this many GPUs of one node, or one slice"
        yield from _largest(capacity.models)
    own = next((one for one in capacity.namespaces if one.namespace == answer.namespace), None)
    yield from _own(answer.namespace, own)
    yield from _excluded(capacity.nodes)
    yield waiting_line(capacity.namespaces)


def _largest(models: Iterable[ModelCapacity]) -> Iterator[str]:
    models = tuple(models)
    whole = max(models, key=lambda model: model.largest)
    sliced = max(models, key=lambda model: slice_size(model.largest_slice))
    if whole.largest:
        size = counted(whole.largest, "GPU")
        yield f"largest job that starts now: {size} (node {whole.largest_node})"
    else:
        yield "no whole GPU is free"
    if sliced.largest_slice:
        name = board(sliced.product, sliced.memory_mib)
        yield f"largest free slice: {sliced.largest_slice} ({name})"


def _own(name: str, own: NamespaceCapacity | None) -> Iterator[str]:
    """What the quotas of the user's namespace leave."""
    if own is None or not own.quotas:
        yield f"you ({name}): no quota of GPUs"
        return
    for use in own.quotas:
        left = max(0, use.hard - use.used)
        scope = ", for pods in its scopes" if use.scoped else ""
        result = f"{left} more" if left else "no more"
        yield (
            f"you ({name}): quota {use.used} of {use.hard} {use.device} used:"
            f" {result} may be created ({use.quota}{scope})"
        )


def _excluded(nodes: Iterable[NodeDevices]) -> Iterator[str]:
    """Nodes that no pod, or only some pods can use."""
    nodes = tuple(nodes)
    problems = Counter(one.problem for one in nodes if one.problem)
    for problem, count in sorted(problems.items()):
        yield f"not counted: {counted(count, 'node')}: {problem}"
    tainted = Counter(
        ", ".join(one.taints)
        for one in nodes
        if one.taints and not one.problem and any(a.free for a in one.devices.values())
    )
    for taints, count in tainted.most_common(TAINTS_SHOWN):
        yield f"tolerate to use {counted(count, 'node')}: {taints}"
