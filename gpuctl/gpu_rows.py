"""What lies where on every GPU, as values that a picture is made of.

Places are told where they are known: on GPUs that are cut to order each instance has its slices, on
numbered nodes each GPU its number. Elsewhere the kubelet picks which device a container gets, so
the strip says how many are held and by whom, and ``is_placed`` is False.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from scheduler.model import well_known
from scheduler.model.mig import layout as mig_layout
from scheduler.state.cache.cluster import Cluster
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus
from scheduler.state.node_info import NodeInfo


class Use(enum.Enum):
    """What a cell is: a CSS class and a word for the legend."""

    HELD = "held"
    #: Cut, and nobody has it: it goes to whoever wants one, or makes room.
    IDLE = "idle"
    FREE = "free"
    #: Who holds it cannot be read, or a cut failed there: nobody gets it.
    BLOCKED = "blocked"


class Cell(msgspec.Struct, frozen=True):
    """A device or an instance: what it is, where it begins, how wide it is, and who has it."""

    what: str
    start: int
    width: int
    use: Use
    holder: str = ""


class GpuRow(msgspec.Struct, frozen=True):
    """The cells of one GPU, or of a node's devices of one kind; ``width`` is that of all."""

    node: str
    title: str
    width: int
    is_placed: bool
    cells: tuple[Cell, ...]


def strips(cluster: Cluster) -> list[GpuRow]:
    """Every GPU of the cluster, by node."""
    found: list[GpuRow] = []
    for node_info in sorted(cluster.candidates(), key=_name):
        gpus = node_info.gpus
        found += _cut_to_order(node_info, gpus) if gpus is not None else _as_offered(node_info)
    return found


def _name(node_info: NodeInfo) -> str:
    assert node_info.node is not None
    return node_info.node.name


def _cut_to_order(node_info: NodeInfo, gpus: DynamicGpus) -> Iterator[GpuRow]:
    """One strip for each GPU, its cells in memory slices."""
    board = gpus.board
    holders = {
        (spot.gpu, mig_layout.canonical(spot.profile), spot.start): pod.name
        for pod, holding in node_info.pods.values()
        for spot in holding.spots
    }
    whole = {
        number: pod.name for pod, holding in node_info.pods.values() for number in holding.numbers
    }
    for gpu, layout in enumerate(gpus.held):
        if layout == BLOCKED:
            use = Use.HELD if gpu in whole else Use.BLOCKED
            cells = [Cell("gpu", 0, board.memory_slices, use, whole.get(gpu, ""))]
        else:
            cells = [
                _instance(board, slot, Use.HELD, holders.get((gpu, *slot), "")) for slot in layout
            ]
            cells += _idle(board, gpus.idle[gpu], mig_layout.occupancy(board, layout))
        title = f"GPU {gpu}, {board.name}"
        yield _strip(_name(node_info), title, board.memory_slices, cells)


def _instance(
    board: mig_layout.GpuModel, slot: mig_layout.Slot, use: Use, holder: str = ""
) -> Cell:
    name, start = slot
    profile = mig_layout.profile_of(board, name)
    assert profile is not None, f"{name} is held and {board.name} has no such profile"
    return Cell(name, start, profile.size, use, holder)


def _idle(
    board: mig_layout.GpuModel, slots: frozenset[mig_layout.Slot], taken: int
) -> Iterator[Cell]:
    """Idle instances; of those that overlap each other only the first can be drawn."""
    for slot in sorted(slots, key=lambda slot: slot[1]):
        cell = _instance(board, slot, Use.IDLE)
        bits = ((1 << cell.width) - 1) << cell.start
        if not taken & bits:
            taken |= bits
            yield cell


def _strip(node: str, title: str, width: int, cells: list[Cell]) -> GpuRow:
    """A strip whose gaps are free cells, one for each slice."""
    taken = {at for cell in cells for at in range(cell.start, cell.start + cell.width)}
    cells = cells + [Cell("", at, 1, Use.FREE) for at in range(width) if at not in taken]
    return GpuRow(node, title, width, True, tuple(sorted(cells, key=lambda cell: cell.start)))


def _as_offered(node_info: NodeInfo) -> Iterator[GpuRow]:
    """One strip for each kind of device that the node offers."""
    node = node_info.node
    assert node is not None
    for resource in sorted(node.devices):
        what = well_known.mig_profile(resource)
        if resource == well_known.GPU and node.is_numbered:
            yield _numbered(node_info, node.allocatable[resource])
            continue
        held = [
            pod.name
            for pod, _ in sorted(node_info.pods.values(), key=lambda entry: entry[0].name)
            for _ in range(pod.requests.get(resource, 0))
        ]
        width = max(node.allocatable[resource], len(held))
        cells = [
            Cell(what, at, 1, Use.HELD if at < len(held) else Use.FREE, "".join(held[at : at + 1]))
            for at in range(width)
        ]
        yield GpuRow(
            node.name, f"{width} x {what}, the kubelet picks which", width, False, (*cells,)
        )


def _numbered(node_info: NodeInfo, count: int) -> GpuRow:
    holders: dict[int, list[str]] = {}
    for pod, holding in node_info.pods.values():
        for number in holding.numbers:
            holders.setdefault(number, []).append(pod.name)
    width = max([count, *(number + 1 for number in holders)])
    cells = [
        Cell(f"gpu {at}", at, 1, Use.HELD, ", ".join(sorted(holders[at])))
        if at in holders
        else Cell(f"gpu {at}", at, 1, Use.FREE)
        for at in range(width)
    ]
    return GpuRow(_name(node_info), f"{count} GPUs by number", width, True, tuple(cells))
