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


class PartitionResult(msgspec.Struct, frozen=True):
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
        gpu_models: tuple[mig_layout.GpuModel | None, ...],
        layouts: Layouts,
        used: frozenset[tuple[int, int]],
        wanted: Iterable[MigPlacement],
    ) -> None:
        self.name = name
        self.gpu_models = gpu_models
        self.layouts = [() if layout is None else layout for layout in layouts]
        self._used = used
        self._wanted = {
            (mig_placement.gpu, mig_placement.start, mig_layout.canonical(mig_placement.profile))
            for mig_placement in wanted
        }

    def has(self, mig_placement: MigPlacement) -> bool:
        """Whether the instance exists."""
        return (
            mig_placement.gpu < len(self.layouts)
            and _slot(mig_placement) in self.layouts[mig_placement.gpu]
        )

    def obstacle(self, mig_placement: MigPlacement) -> str:
        """Why it cannot be created; an empty text if it can."""
        if mig_placement.gpu >= len(self.layouts):
            return f"there is no GPU {mig_placement.gpu}, the node has {len(self.layouts)}"
        gpu_model = self.gpu_models[mig_placement.gpu]
        if gpu_model is None:
            return f"GPU {mig_placement.gpu} has no MIG"
        if flaw := mig_layout.flaw(gpu_model, (_slot(mig_placement),)):
            return flaw
        for slot in self._in_the_way(gpu_model, mig_placement):
            key = (mig_placement.gpu, slot[1])
            if key in self._used:
                return f"{slot[0]} at slice {slot[1]} of GPU {mig_placement.gpu} is in use"
            if (*key, slot[0]) in self._wanted:
                return f"{slot[0]} at slice {slot[1]} of GPU {mig_placement.gpu} must stay"
        return ""

    def create(self, mig_placement: MigPlacement) -> None:
        """Create it, and destroy the idle ones in its way."""
        gpu_model = self.gpu_models[mig_placement.gpu]
        assert gpu_model is not None, "obstacle() was checked"
        blocking = set(self._in_the_way(gpu_model, mig_placement))
        kept = [slot for slot in self.layouts[mig_placement.gpu] if slot not in blocking]
        self.layouts[mig_placement.gpu] = mig_layout.layout_of((*kept, _slot(mig_placement)))

    def _in_the_way(
        self, gpu_model: mig_layout.GpuModel, mig_placement: MigPlacement
    ) -> list[mig_layout.Slot]:
        return [
            slot
            for slot in self.layouts[mig_placement.gpu]
            if not mig_layout.is_legal(
                gpu_model, mig_layout.layout_of((slot, _slot(mig_placement)))
            )
        ]

    def instance(self, mig_placement: MigPlacement, deadline: str = "") -> MigInstance:
        """The status of an existing instance."""
        uuid = mig_id(
            self.name,
            mig_placement.gpu,
            mig_layout.canonical(mig_placement.profile),
            mig_placement.start,
        )
        return MigInstance(mig_placement, PartitionState.READY, uuid, "", deadline)


def _slot(mig_placement: MigPlacement) -> mig_layout.Slot:
    return mig_layout.canonical(mig_placement.profile), mig_placement.start


def create_partitions(
    node: str,
    gpu_models: tuple[mig_layout.GpuModel | None, ...],
    layouts: Layouts,
    in_use: NodeTopology | None,
    mig_partitions: NodePartitions,
    begun: Begun,
    at: Moment,
) -> PartitionResult:
    """Process the requests at this time."""
    there = _Node(
        node,
        gpu_models,
        layouts,
        _used(in_use),
        (one.mig_placement for one in mig_partitions.orders),
    )
    failed = {
        (i.mig_placement, i.deadline): i
        for i in mig_partitions.instances
        if i.state is PartitionState.FAILED
    }
    answers: dict[MigPlacement, MigInstance] = {}
    going: dict[tuple[MigPlacement, str], float] = {}
    for order in mig_partitions.orders:
        key = (order.mig_placement, order.deadline)
        if there.has(order.mig_placement):
            continue
        if order.deadline and key in failed:
            answers[order.mig_placement] = failed[key]
        elif answer := _answer(there, order, begun.get(key), at, going):
            answers[order.mig_placement] = answer
    deadlines = {order.mig_placement: order.deadline for order in mig_partitions.orders}
    for gpu, layout in enumerate(there.layouts):
        for profile, start in layout:
            mig_placement = MigPlacement(gpu, start, profile)
            answers[mig_placement] = there.instance(mig_placement, deadlines.get(mig_placement, ""))
    return PartitionResult(
        tuple(there.layouts),
        tuple(answers[mig_placement] for mig_placement in sorted(answers)),
        going,
    )


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
    problem = there.obstacle(order.mig_placement)
    if order.mig_placement.gpu in at.broken:
        problem = f"GPU {order.mig_placement.gpu} failed"
    if problem:
        return MigInstance(order.mig_placement, PartitionState.FAILED, "", problem, order.deadline)
    if not order.deadline:
        ready_at = at.now  # a pod uses it: it existed before
    elif ready_at is None:
        ready_at = at.now + at.latency_s
    if at.now < ready_at:
        going[order.mig_placement, order.deadline] = ready_at
        return MigInstance(order.mig_placement, PartitionState.PENDING, "", "", order.deadline)
    if at.fails and order.deadline:
        text = "creation failed, as configured"
        return MigInstance(order.mig_placement, PartitionState.FAILED, "", text, order.deadline)
    there.create(order.mig_placement)
    return None


def _used(topology: NodeTopology | None) -> frozenset[tuple[int, int]]:
    """The places of instances that containers hold."""
    return frozenset(
        (index, device.position)
        for index, gpu in enumerate(topology.gpus if topology else ())
        for device in gpu.instances
        if device.status.held_by
    )
