"""The allocation of every GPU as rows of cells, the input of ``gpu_diagram``.

With dynamic MIG each instance has known slices, and on index-assigned nodes each GPU has a known
number. On other nodes the kubelet picks the device, so the row shows only how many devices are
held and by which pods, and ``is_placed`` is False. Devices of a DRA driver are rows of their own;
one that is neither held nor free, because of shared counters, is left out.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from scheduler.model import well_known
from scheduler.model.mig import layout as mig_layout
from scheduler.state.cache.cluster import Cluster
from scheduler.state.dra.published_devices import holders, published_devices
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus
from scheduler.state.node_info import NodeInfo


class Use(enum.Enum):
    """The state of a cell; the value is its CSS class."""

    HELD = "held"
    #: A MIG instance without a pod; it is reused or destroyed.
    IDLE = "idle"
    FREE = "free"
    #: The holder is unknown, or the partitioning failed; no pod is placed there.
    BLOCKED = "blocked"


class Cell(msgspec.Struct, frozen=True):
    """A device or an instance: name, first slice, width, state and pod."""

    name: str
    start: int
    width: int
    use: Use
    holder: str = ""


class GpuRow(msgspec.Struct, frozen=True):
    """The cells of one GPU, or of all devices of one resource on a node; ``width`` is the sum."""

    node: str
    title: str
    width: int
    is_placed: bool
    cells: tuple[Cell, ...]


def rows_of(cluster: Cluster) -> list[GpuRow]:
    """Every GPU of the cluster, ordered by node."""
    rows: list[GpuRow] = []
    for node_info in sorted(cluster.candidates(), key=_name):
        gpus = node_info.gpus
        rows += _dynamic_mig(node_info, gpus) if gpus is not None else _by_resource(node_info)
        rows += _of_drivers(cluster, node_info)
    return rows


def _name(node_info: NodeInfo) -> str:
    assert node_info.node is not None
    return node_info.node.name


def _dynamic_mig(node_info: NodeInfo, gpus: DynamicGpus) -> Iterator[GpuRow]:
    """A row for each GPU, with cells in memory slices."""
    gpu_model = gpus.gpu_model
    holders = {
        (
            mig_placement.gpu,
            mig_layout.canonical(mig_placement.profile),
            mig_placement.start,
        ): pod.name
        for pod, allocation in node_info.pods.values()
        for mig_placement in allocation.mig_placements
    }
    whole = {
        number: pod.name
        for pod, allocation in node_info.pods.values()
        for number in allocation.numbers
    }
    for gpu, layout in enumerate(gpus.held):
        if layout == BLOCKED:
            use = Use.HELD if gpu in whole else Use.BLOCKED
            cells = [Cell("gpu", 0, gpu_model.memory_slices, use, whole.get(gpu, ""))]
        else:
            cells = [
                _instance(gpu_model, slot, Use.HELD, holders.get((gpu, *slot), ""))
                for slot in layout
            ]
            cells += _idle(gpu_model, gpus.idle[gpu], mig_layout.occupancy(gpu_model, layout))
        title = f"GPU {gpu}, {gpu_model.name}"
        yield _with_free_cells(_name(node_info), title, gpu_model.memory_slices, cells)


def _instance(
    gpu_model: mig_layout.GpuModel, slot: mig_layout.Slot, use: Use, holder: str = ""
) -> Cell:
    name, start = slot
    profile = mig_layout.profile_of(gpu_model, name)
    assert profile is not None, f"{name} is held and {gpu_model.name} has no such profile"
    return Cell(name, start, profile.size, use, holder)


def _idle(
    gpu_model: mig_layout.GpuModel, slots: frozenset[mig_layout.Slot], taken: int
) -> Iterator[Cell]:
    """Idle instances; of overlapping ones only the first is drawn."""
    for slot in sorted(slots, key=lambda slot: slot[1]):
        cell = _instance(gpu_model, slot, Use.IDLE)
        bits = ((1 << cell.width) - 1) << cell.start
        if not taken & bits:
            taken |= bits
            yield cell


def _with_free_cells(node: str, title: str, width: int, cells: list[Cell]) -> GpuRow:
    """A row with a free cell for each slice that the cells leave."""
    taken = {at for cell in cells for at in range(cell.start, cell.start + cell.width)}
    cells = cells + [Cell("", at, 1, Use.FREE) for at in range(width) if at not in taken]
    return GpuRow(node, title, width, True, tuple(sorted(cells, key=lambda cell: cell.start)))


def _by_resource(node_info: NodeInfo) -> Iterator[GpuRow]:
    """A row for each GPU resource that the node advertises."""
    node = node_info.node
    assert node is not None
    for resource in sorted(node.devices):
        name = well_known.mig_profile(resource)
        if resource == well_known.GPU and node.is_index_assigned:
            yield _index_assigned(node_info, node.allocatable[resource])
            continue
        held = [
            pod.name
            for pod, _ in sorted(node_info.pods.values(), key=lambda entry: entry[0].name)
            for _ in range(pod.requests.get(resource, 0))
        ]
        width = max(node.allocatable[resource], len(held))
        cells = [
            Cell(name, at, 1, Use.HELD if at < len(held) else Use.FREE, "".join(held[at : at + 1]))
            for at in range(width)
        ]
        yield GpuRow(
            node.name, f"{width} x {name}, the kubelet picks which", width, False, (*cells,)
        )


def _of_drivers(cluster: Cluster, node_info: NodeInfo) -> Iterator[GpuRow]:
    """A row for each DRA driver with devices on the node."""
    node = node_info.node
    assert node is not None
    cells: dict[str, list[Cell]] = {}
    for one in published_devices(cluster.dra, node):
        if one.is_held or one.is_free or one.is_tainted:
            use = Use.HELD if one.is_held else Use.FREE if one.is_free else Use.BLOCKED
            row = cells.setdefault(one.device.driver, [])
            holding = ", ".join(holders(cluster.dra, one.id))
            row.append(Cell(one.device.name, len(row), 1, use, holding))
    for driver, row in sorted(cells.items()):
        yield GpuRow(node.name, f"devices of {driver}", len(row), True, tuple(row))


def _index_assigned(node_info: NodeInfo, count: int) -> GpuRow:
    holders: dict[int, list[str]] = {}
    for pod, allocation in node_info.pods.values():
        for number in allocation.numbers:
            holders.setdefault(number, []).append(pod.name)
    width = max([count, *(number + 1 for number in holders)])
    cells = [
        Cell(f"gpu {at}", at, 1, Use.HELD, ", ".join(sorted(holders[at])))
        if at in holders
        else Cell(f"gpu {at}", at, 1, Use.FREE)
        for at in range(width)
    ]
    return GpuRow(_name(node_info), f"{count} GPUs by number", width, True, tuple(cells))
