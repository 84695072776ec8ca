"""Dynamic MIG: the operator's side of docs/mig-dynamic.md, for one node.

    requested, missing          -> Pending, latency ->  Ready | Failed
    requested, past its deadline -> not started
    held (no deadline)           -> created at once, if it is missing

The object contains all state except the end of a running creation. An instance that is not
requested stays until its slices are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fakegpu.topology.ids import mig_id
from fakegpu.topology.mig_config import Layouts
from fakegpu.topology.node_topology import NodeTopology
from scheduler.model.crd.mig_partition import (
    MigInstance,
    NodePartitions,
    PartitionRequest,
    PartitionState,
)
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.mig import layout as mig_layout
from scheduler.model.timestamps import epoch

#: A request (its place and deadline) -> the end of its creation (monotonic seconds).
Begun = Mapping[tuple[MigPlacement, str], float]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The time on both clocks, the random draw, the configuration, and the broken GPUs."""

    now: float
    wall: float
    latency_s: float
    fails: bool
    broken: frozenset[int] = frozenset()


class Cutting(msgspec.Struct, frozen=True):
    """The existing instances, the status to write, and the running creations."""

    layouts: Layouts
    answer: tuple[MigInstance, ...]
    begun: dict[tuple[MigPlacement, str], float]

    @property
    def ready_at(self) -> float | None:
        """The next time to continue."""
        return min(self.begun.values(), default=None)


class _Node:
    """One node's GPUs while its requests are processed."""

    def __init__(
        self,
        name: str,
        boards: tuple[mig_layout.GpuModel | None, ...],
        layouts: Layouts,
        used: frozenset[tuple[int, int]],
        wanted: Iterable[MigPlacement],
    ) -> None:
        self.name = name
        self.boards = boards
        self.layouts = [() if layout is None else layout for layout in layouts]
        self._used = used
        self._wanted = {
            (spot.gpu, spot.start, mig_layout.canonical(spot.profile)) for spot in wanted
        }

    def has(self, spot: MigPlacement) -> bool:
        """Whether the instance exists."""
        return spot.gpu < len(self.layouts) and _slot(spot) in self.layouts[spot.gpu]

    def obstacle(self, spot: MigPlacement) -> str:
        """Why it cannot be created; an empty text if it can."""
        if spot.gpu >= len(self.layouts):
            return f"there is no GPU {spot.gpu}, the node has {len(self.layouts)}"
        board = self.boards[spot.gpu]
        if board is None:
            return f"GPU {spot.gpu} has no MIG"
        if flaw := mig_layout.flaw(board, (_slot(spot),)):
            return flaw
        for slot in self._in_the_way(board, spot):
            key = (spot.gpu, slot[1])
            if key in self._used:
                return f"{slot[0]} at slice {slot[1]} of GPU {spot.gpu} is in use"
            if (*key, slot[0]) in self._wanted:
                return f"{slot[0]} at slice {slot[1]} of GPU {spot.gpu} must stay"
        return ""

    def cut(self, spot: MigPlacement) -> None:
        """Create it, and destroy the idle ones in its way."""
        board = self.boards[spot.gpu]
        assert board is not None, "obstacle() was checked"
        blocking = set(self._in_the_way(board, spot))
        kept = [slot for slot in self.layouts[spot.gpu] if slot not in blocking]
        self.layouts[spot.gpu] = mig_layout.layout_of((*kept, _slot(spot)))

    def _in_the_way(self, board: mig_layout.GpuModel, spot: MigPlacement) -> list[mig_layout.Slot]:
        return [
            slot
            for slot in self.layouts[spot.gpu]
            if not mig_layout.is_legal(board, mig_layout.layout_of((slot, _slot(spot))))
        ]

    def instance(self, spot: MigPlacement, deadline: str = "") -> MigInstance:
        """The status of an existing instance."""
        uuid = mig_id(self.name, spot.gpu, mig_layout.canonical(spot.profile), spot.start)
        return MigInstance(spot, PartitionState.READY, uuid, "", deadline)


def _slot(spot: MigPlacement) -> mig_layout.Slot:
    return mig_layout.canonical(spot.profile), spot.start


def cut_to_order(
    node: str,
    boards: tuple[mig_layout.GpuModel | None, ...],
    layouts: Layouts,
    in_use: NodeTopology | None,
    cuts: NodePartitions,
    begun: Begun,
    at: Moment,
) -> Cutting:
    """Process the requests at this time."""
    there = _Node(node, boards, layouts, _used(in_use), (one.spot for one in cuts.orders))
    failed = {(i.spot, i.deadline): i for i in cuts.instances if i.state is PartitionState.FAILED}
    answers: dict[MigPlacement, MigInstance] = {}
    going: dict[tuple[MigPlacement, str], float] = {}
    for order in cuts.orders:
        key = (order.spot, order.deadline)
        if there.has(order.spot):
            continue
        if order.deadline and key in failed:
            answers[order.spot] = failed[key]
        elif answer := _answer(there, order, begun.get(key), at, going):
            answers[order.spot] = answer
    deadlines = {order.spot: order.deadline for order in cuts.orders}
    for gpu, layout in enumerate(there.layouts):
        for profile, start in layout:
            spot = MigPlacement(gpu, start, profile)
            answers[spot] = there.instance(spot, deadlines.get(spot, ""))
    return Cutting(tuple(there.layouts), tuple(answers[spot] for spot in sorted(answers)), going)


def _answer(
    there: _Node,
    order: PartitionRequest,
    ready_at: float | None,
    at: Moment,
    going: dict[tuple[MigPlacement, str], float],
) -> MigInstance | None:
    """One missing instance: create it when its time has come, or report its state."""
    until = epoch(order.deadline) if order.deadline else None
    if ready_at is None and until is not None and until <= at.wall:
        return None  # the request has expired
    problem = there.obstacle(order.spot)
    if order.spot.gpu in at.broken:
        problem = f"GPU {order.spot.gpu} failed"
    if problem:
        return MigInstance(order.spot, PartitionState.FAILED, "", problem, order.deadline)
    if not order.deadline:
        ready_at = at.now  # a pod uses it: it existed before
    elif ready_at is None:
        ready_at = at.now + at.latency_s
    if at.now < ready_at:
        going[order.spot, order.deadline] = ready_at
        return MigInstance(order.spot, PartitionState.PENDING, "", "", order.deadline)
    if at.fails and order.deadline:
        text = "creation failed, as configured"
        return MigInstance(order.spot, PartitionState.FAILED, "", text, order.deadline)
    there.cut(order.spot)
    return None


def _used(topology: NodeTopology | None) -> frozenset[tuple[int, int]]:
    """The places of instances that containers hold."""
    return frozenset(
        (index, device.position)
        for index, gpu in enumerate(topology.gpus if topology else ())
        for device in gpu.instances
        if device.status.held_by
    )
