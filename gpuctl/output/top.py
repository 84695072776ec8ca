"""Tables of ``gpuctl top``: the cluster in one line, namespaces, nodes and pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from gpuctl.capacity import CapacityAnswer
from gpuctl.output.columns import Columns
from gpuctl.output.devices import NOTHING, board, counted, listed, quotas, sums
from gpuctl.output.text import plain
from scheduler.model.timestamps import duration
from scheduler.report.decisions.api_types import Capacity
from scheduler.state.capacity.node_devices import GPU, NodeDevices, is_slice
from scheduler.state.capacity.summary import NamespaceCapacity

HOLDERS_SHOWN: Final = 3


class NodeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of CSV: the devices of one unit on one node."""

    node: str
    product: str
    memory_mib: int
    device: str
    total: int
    held: int
    free: int
    failed: int
    problem: str
    taints: tuple[str, ...]


class NamespaceRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of CSV: the devices of one unit of one namespace."""

    namespace: str
    device: str
    held: int
    waiting: int
    quota_used: int | None
    quota_hard: int | None


class PodRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of CSV: the devices of one unit that a pod holds, or waits for."""

    namespace: str
    pod: str
    node: str
    device: str
    count: int
    indexes: tuple[int, ...] = ()
    waits_s: float | None = None
    position: int | None = None


# --- rows ----------------------------------------------------------------------------------


def node_rows(nodes: Iterable[NodeDevices]) -> list[NodeRow]:
    """A row per node and unit."""
    return [
        NodeRow(
            node=one.node,
            product=one.product,
            memory_mib=one.memory_mib,
            device=unit,
            total=amount.total,
            held=amount.held,
            free=amount.free,
            failed=amount.failed,
            problem=one.problem,
            taints=one.taints,
        )
        for one in nodes
        for unit, amount in one.devices.items()
    ]


def namespace_rows(namespaces: Iterable[NamespaceCapacity]) -> list[NamespaceRow]:
    """A row per namespace and unit; of several quotas the one with the least room."""
    rows: list[NamespaceRow] = []
    for one in namespaces:
        tightest = {
            use.device: use
            for use in sorted(one.quotas, key=lambda use: use.hard - use.used, reverse=True)
        }
        for unit in dict.fromkeys((*one.devices, *one.waiting_devices, *tightest)):
            use = tightest.get(unit)
            rows.append(
                NamespaceRow(
                    namespace=one.namespace,
                    device=unit,
                    held=one.devices.get(unit, 0),
                    waiting=one.waiting_devices.get(unit, 0),
                    quota_used=use.used if use else None,
                    quota_hard=use.hard if use else None,
                )
            )
    return rows


def pod_rows(capacity: Capacity) -> list[PodRow]:
    """A row per pod and unit: those that hold devices, then those that wait."""
    held = [
        PodRow(
            namespace=holder.namespace,
            pod=holder.pod,
            node=one.node,
            device=unit,
            count=count,
            indexes=holder.indexes if unit == GPU else (),
        )
        for one in capacity.nodes
        for holder in one.holders
        for unit, count in holder.devices.items()
    ]
    return held + [
        PodRow(
            namespace=one.namespace,
            pod=one.pod,
            node="",
            device=unit,
            count=count,
            waits_s=one.waits_s,
            position=one.position or None,
        )
        for one in capacity.waiting
        for unit, count in one.devices.items()
    ]


# --- text ----------------------------------------------------------------------------------


def overview(answer: CapacityAnswer) -> RenderableType:
    """The cluster in a line, and the namespaces."""
    parts: list[RenderableType] = []
    if answer.capacity.nodes_total:
        parts += [Text(cluster_line(answer.capacity), style="bold"), ""]
    return Group(*parts, by_namespace(answer))


def cluster_line(capacity: Capacity) -> str:
    """The devices of the cluster and the waiting pods in one line."""
    gpus, slices = sums(model.devices for model in capacity.models)
    parts = [counted(capacity.nodes_total, "node")]
    if gpus.total or not slices.total:
        share = f" ({100 * gpus.held // gpus.total}%)" if gpus.total else ""
        parts += [counted(gpus.total, "GPU"), f"held {gpus.held}{share}", f"free {gpus.free}"]
        parts += [f"failed {gpus.failed}"] if gpus.failed else []
    if slices.total:
        parts.append(f"slices held {slices.held}")
    return "  ".join((*parts, waiting_line(capacity.namespaces)))


def waiting_line(found: Sequence[NamespaceCapacity]) -> str:
    """How many pods wait, for how many devices, and for how long."""
    pods = sum(one.waiting_pods for one in found)
    if not pods:
        return "no pod waits"
    amounts: dict[str, int] = {}
    for one in found:
        for unit, count in one.waiting_devices.items():
            amounts[unit] = amounts.get(unit, 0) + count
    asked = f", {counted(amounts[GPU], 'GPU')}" if amounts.get(GPU) else ""
    slices = sum(count for unit, count in amounts.items() if is_slice(unit))
    asked += f", {counted(slices, 'slice')}" if slices else ""
    oldest = duration(max(one.oldest_wait_s for one in found))
    return f"waiting {counted(pods, 'pod')}{asked}, oldest {oldest}"


def by_namespace(answer: CapacityAnswer) -> RenderableType:
    """The namespaces, and the notes of the answer."""
    return Group(namespaces(answer.capacity.namespaces), *noted(answer))


def namespaces(found: Iterable[NamespaceCapacity]) -> RenderableType:
    """What each namespace holds, may use, and waits for."""
    table = Columns(
        *("NAMESPACE", "GPUS", "SLICES", "QUOTA", "WAITING", "OLDEST"),
        prose=("SLICES", "QUOTA"),
        optional=("OLDEST", "QUOTA"),
    )
    for one in found:
        table.add_row(
            plain(one.namespace),
            str(one.devices.get(GPU, 0) or NOTHING),
            listed(one.devices, without_gpus=True),
            quotas(one.quotas),
            str(one.waiting_pods),
            duration(one.oldest_wait_s) if one.waiting_pods else NOTHING,
        )
    return table if table.row_count else Text("no namespace holds or waits for GPUs")


def nodes(answer: CapacityAnswer, found: Sequence[NodeDevices], *, wide: bool) -> RenderableType:
    """One line per node: its GPUs, the largest free block, and the pods."""
    table = Columns(
        *("NODE", "MODEL", "GPUS", "HELD", "LARGEST FREE", "BY"),
        prose=("HELD", "BY"),
        optional=("LARGEST FREE", "GPUS", "MODEL"),
    )
    for one in found:
        gpus, _ = sums([one.devices])
        table.add_row(
            plain(one.node),
            plain(board(one.product, one.memory_mib) if one.product else NOTHING),
            str(gpus.total or len(one.gpus) or NOTHING),
            plain(_held(one)),
            _largest(one),
            plain("; ".join(_by(one, wide=wide)) or NOTHING),
        )
    if not table.row_count:
        return Group(Text("no node has GPUs"), *noted(answer))
    legend = Text("# held   + held in part or not usable   . free   F failed", style="dim")
    return Group(table, "", legend, *noted(answer))


def _held(one: NodeDevices) -> str:
    slices = {unit: amount.held for unit, amount in one.devices.items() if unit != GPU}
    shown = listed(slices)
    if not one.gpus:
        gpus = one.devices.get(GPU)
        drawn = f"{gpus.held} of {gpus.total}" if gpus is not None and gpus.total else ""
    else:
        drawn = one.gpus
    return " ".join(part for part in (drawn, "" if shown == NOTHING else shown) if part) or NOTHING


def _largest(one: NodeDevices) -> str:
    unit, count = one.largest_free
    if not count:
        return NOTHING
    return str(count) if unit == GPU else f"{count} {unit}" if count > 1 else unit


def _by(one: NodeDevices, *, wide: bool) -> Iterator[str]:
    most = len(one.holders) if wide else HOLDERS_SHOWN
    holders = sorted(one.holders, key=lambda holder: -sum(holder.devices.values()))
    if shown := [f"{holder.pod} {listed(holder.devices)}" for holder in holders[:most]]:
        more = len(holders) - len(shown)
        yield ", ".join(shown) + (f" and {more} more" if more else "")
    failed = sum(amount.failed for amount in one.devices.values())
    if failed or "F" in one.gpus:
        indexes = [str(at) for at, sign in enumerate(one.gpus) if sign == "F" and one.is_numbered]
        yield f"failed: GPU {','.join(indexes)}" if indexes else f"{counted(failed, 'GPU')} failed"
    if one.problem:
        yield one.problem
    if one.taints:
        yield f"taint {', '.join(one.taints)}"


def pods(answer: CapacityAnswer, *, is_idle: bool = False) -> RenderableType:
    """One line per pod: those that hold devices, then those that wait; or only idle ones."""
    capacity = answer.capacity
    table = Columns("NAMESPACE", "POD", "NODE", "DEVICES", prose=("DEVICES",))
    for one in capacity.nodes:
        for holder in one.holders:
            indexes = f" ({','.join(map(str, holder.indexes))})" if holder.indexes else ""
            table.add_row(
                plain(holder.namespace),
                plain(holder.pod),
                plain(one.node),
                listed(holder.devices) + indexes,
            )
    for waiting in capacity.waiting:
        state = Text(f"waits {duration(waiting.waits_s)}", style="bold")
        table.add_row(plain(waiting.namespace), plain(waiting.pod), state, listed(waiting.devices))
    if not table.row_count:
        line = "no pod leaves its GPUs idle" if is_idle else "no pod holds or waits for GPUs"
        return Group(Text(line), *noted(answer))
    return Group(table, *noted(answer))


def noted(answer: CapacityAnswer) -> list[RenderableType]:
    """The notes of the answer, one line each."""
    capacity = answer.capacity
    notes = list(answer.notes)
    if capacity.nodes_left_out:
        notes.append(f"{capacity.nodes_left_out} more nodes are only in the sums")
    if capacity.waiting_left_out:
        notes.append(f"{capacity.waiting_left_out} more waiting pods are only in the sums")
    return ["", *(plain(f"note: {one}") for one in notes)] if notes else []
