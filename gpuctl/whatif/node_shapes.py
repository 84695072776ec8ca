"""Nodes to add: empty copies of a node of the cluster, with its devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from gpuctl.device_words import counted
from gpuctl.input_error import InputError
from gpuctl.whatif.change import AddedNodes
from scheduler.model import well_known
from scheduler.model.dra.device import NodeChoice
from scheduler.model.dra.objects import DraObject
from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.model.gpu.board_name import board
from scheduler.model.mig.node_geometry import sound
from scheduler.model.node import Node
from scheduler.model.volumes.storage import CsiNode, StorageObject
from scheduler.state.snapshot import ClusterSnapshot

#: The model of a node whose labels do not name its board.
UNKNOWN_MODEL: Final = "gpu"
SHAPES_SHOWN: Final = 6


class NewNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node, what its drivers publish of it, and the name of its model."""

    node: Node
    like: str
    dra: tuple[DraObject, ...] = ()
    storage: tuple[StorageObject, ...] = ()


def new_nodes(state: ClusterSnapshot, added: Iterable[AddedNodes]) -> list[NewNode]:
    """The nodes to add; InputError lists the shapes that the cluster has."""
    taken = {node.name for node in state.nodes}
    found: list[NewNode] = []
    for one in added:
        model = _model(state, one)
        for _ in range(one.count):
            name = _free_name(model.name, taken)
            taken.add(name)
            found.append(_copy(state, model, name))
    return found


def shape_of(node: Node) -> str:
    """The model of the board and the number of GPUs (``h100x8``); empty without GPUs."""
    if not node.has_gpus and node.dynamic_mig is None:
        return ""
    count = node.physical_gpu_count or node.geometry.total_gpus or len(node.geometry.gpus)
    if not count:
        return ""
    product = node.labels.get(well_known.GPU_PRODUCT, "")
    words = [] if not product else board(product.partition("-MIG-")[0], 0).lower().split()
    name = "".join(word for word in words if not (word[:1].isdigit() and word.endswith("g")))
    return f"{name or UNKNOWN_MODEL}x{count}"


def is_ready(node: Node) -> bool:
    """Whether a copy of the node would take pods: neither cordoned nor with a bad condition."""
    bad = any(taint.is_hard and taint.is_of_condition for taint in node.taints)
    return not (node.unschedulable or node.unread or bad)


def _model(state: ClusterSnapshot, wanted: AddedNodes) -> Node:
    by_name = {node.name: node for node in state.nodes}
    if wanted.shape in by_name:
        return by_name[wanted.shape]
    if wanted.is_name:
        raise InputError(f"--add-nodes like={wanted.shape}: {no_node(state, wanted.shape)}")
    fit = (n for n in state.nodes if shape_of(n) == wanted.shape.lower() and is_ready(n))
    model = next(fit, None)
    if model is None:
        raise InputError(
            f"--add-nodes {wanted.shape}: no ready node of that shape; {_shapes(state.nodes)},"
            " or like=NODE"
        )
    return model


def no_node(state: ClusterSnapshot, name: str) -> str:
    """The error of a missing node, with some that exist."""
    names = sorted(node.name for node in state.nodes)
    shown = ", ".join(names[:SHAPES_SHOWN]) or "none"
    more = f" and {len(names) - SHAPES_SHOWN} more" if len(names) > SHAPES_SHOWN else ""
    return f"no node {name}; there are: {shown}{more}"


def _shapes(nodes: Iterable[Node]) -> str:
    counts = Counter(shape for node in nodes if is_ready(node) and (shape := shape_of(node)))
    if not counts:
        return "no ready node has GPUs"
    shown = (f"{s} ({counted(n, 'node')})" for s, n in counts.most_common(SHAPES_SHOWN))
    return f"there are: {', '.join(shown)}"


def _free_name(like: str, taken: set[str]) -> str:
    number = 1
    while f"{like}-new-{number}" in taken:
        number += 1
    return f"{like}-new-{number}"


def _copy(state: ClusterSnapshot, model: Node, name: str) -> NewNode:
    """The model's node as a new machine: empty, healthy and schedulable."""
    labels = {k: v for k, v in model.labels.items() if k not in well_known.NODE_ALIASES}
    if well_known.HOSTNAME in labels:
        labels[well_known.HOSTNAME] = name
    notes = {k: v for k, v in model.annotations.items() if k == well_known.MIG_CONFIG}
    amounts = {
        resource: max(amount, model.capacity.get(resource, 0))
        for resource, amount in model.allocatable.items()
    }
    node = msgspec.structs.replace(
        model,
        name=name,
        uid=f"new/{name}",
        labels=labels,
        annotations=notes,
        allocatable=sound(labels, notes, amounts),
        unschedulable=False,
        taints=tuple(taint for taint in model.taints if not taint.is_of_condition),
        images=(),
        boot="",
    )
    return NewNode(
        node=node,
        like=model.name,
        dra=tuple(_slices(state, model.name, name)),
        storage=tuple(
            msgspec.structs.replace(item, name=name)
            for item in state.storage
            if isinstance(item, CsiNode) and item.name == model.name
        ),
    )


def _slices(state: ClusterSnapshot, like: str, name: str) -> Iterator[ResourceSlice]:
    """The pools that exist on the model's node only, under the new name."""
    for item in state.dra:
        if isinstance(item, ResourceSlice) and item.nodes.node_name == like:
            yield msgspec.structs.replace(
                item,
                name=f"{item.name}/{name}",
                pool=item.pool.replace(like, name) if like in item.pool else f"{item.pool}/{name}",
                nodes=NodeChoice(node_name=name),
            )
