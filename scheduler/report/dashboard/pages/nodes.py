"""The page of the nodes: where the room is, how fragmented it is, and who sits on which GPU."""

from __future__ import annotations

from typing import Final

from scheduler.model import well_known
from scheduler.model.gpu.board_name import board
from scheduler.report.dashboard.pages.page import Shape
from scheduler.report.dashboard.pages.squares import Gpu, Slice, squares_of
from scheduler.state.cache.cluster import Cluster
from scheduler.state.capacity.node_devices import (
    GPU,
    Amounts,
    DeviceAmount,
    NodeDevices,
    devices_of,
)
from scheduler.state.node_info import NodeInfo
from scheduler.state.parts import Parts

NODES_MAX: Final = 2_000
#: A part ends after so many steps: one for each pod of a node, and some for the node.
PART: Final = 150
NODE_STEPS: Final = 10


class LargestFree(Shape, frozen=True, kw_only=True):
    """The largest block that one pod could get."""

    unit: str
    count: int


class NodeHolder(Shape, frozen=True, kw_only=True):
    """A pod with devices of the node; ``indexes`` are the GPUs that are known by number."""

    namespace: str
    pod: str
    since: str
    devices: Amounts
    indexes: tuple[int, ...]


class NodeRow(Shape, frozen=True, kw_only=True):
    """One node. ``slices`` are the instances whose GPU is not known."""

    node: str
    product: str
    model: str
    memory_mib: int
    zone: str
    state: str
    problem: str
    taints: tuple[str, ...]
    devices: dict[str, DeviceAmount]
    largest_free: LargestFree | None
    is_numbered: bool
    gpus: tuple[Gpu, ...]
    slices: tuple[Slice, ...]
    holders: tuple[NodeHolder, ...]


class Fragmentation(Shape, frozen=True, kw_only=True):
    """The free whole GPUs, and those of them that are beside held ones of their node."""

    free_gpus: int
    on_partly_held_nodes: int


class NodesPage(Shape, frozen=True, kw_only=True):
    """The nodes with devices, by name, and the values that filters offer."""

    total: int
    left_out: int
    models: tuple[str, ...]
    zones: tuple[str, ...]
    namespaces: tuple[str, ...]
    fragmentation: Fragmentation
    nodes: tuple[NodeRow, ...]


def nodes_page(cluster: Cluster) -> Parts[NodesPage]:
    """The page of a cluster."""
    rows: list[NodeRow] = []
    namespaces: set[str] = set()
    total = free = beside = steps = 0
    names = sorted(one.node.name for one in cluster.candidates() if one.node is not None)
    for name in names:
        node_info = cluster.at(name)
        if node_info is None or node_info.node is None:
            continue
        one = devices_of(node_info, cluster.dra)
        if one.devices or one.holders:
            total += 1
            gpus = one.devices.get(GPU, DeviceAmount())
            free += gpus.free
            beside += gpus.free if gpus.held else 0
            if len(rows) < NODES_MAX:
                rows.append(_row(node_info, one))
                namespaces.update(held.namespace for held in one.holders)
        steps += NODE_STEPS + len(node_info.pods)
        if steps >= PART:
            yield steps
            steps = 0
    return NodesPage(
        total=total,
        left_out=total - len(rows),
        models=tuple(sorted({one.model for one in rows if one.model})),
        zones=tuple(sorted({one.zone for one in rows if one.zone})),
        namespaces=tuple(sorted(namespaces)),
        fragmentation=Fragmentation(free_gpus=free, on_partly_held_nodes=beside),
        nodes=tuple(rows),
    )


def _row(node_info: NodeInfo, one: NodeDevices) -> NodeRow:
    node = node_info.node
    assert node is not None, "a node that only its pods name has no row"
    since = {
        (pod.namespace, pod.name): pod.started or pod.created for pod, _ in node_info.pods.values()
    }
    unit, count = one.largest_free
    gpus, slices = squares_of(node_info, one)
    return NodeRow(
        node=one.node,
        product=one.product,
        model=board(one.product, one.memory_mib) if one.product else "",
        memory_mib=one.memory_mib,
        zone=node.labels.get(well_known.ZONE) or node.labels.get(well_known.BETA_ZONE, ""),
        state=_state(one.problem),
        problem=one.problem,
        taints=one.taints,
        devices=one.devices,
        largest_free=LargestFree(unit=unit, count=count) if count else None,
        is_numbered=one.is_numbered or node_info.gpus is not None,
        gpus=gpus,
        slices=slices,
        holders=tuple(
            NodeHolder(
                namespace=held.namespace,
                pod=held.pod,
                since=since.get((held.namespace, held.pod), ""),
                devices=held.devices,
                indexes=held.indexes,
            )
            for held in one.holders
        ),
    )


def _state(problem: str) -> str:
    if not problem:
        return "ready"
    return "cordoned" if problem == "cordoned" else "unavailable"
