"""A node as it is after mig-manager gave its GPUs another MIG layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from fakegpu.topology.invalid import Invalid
from fakegpu.topology.mig_config import Layouts, by_name
from gpuctl.input_error import InputError
from gpuctl.whatif.change import NewLayout
from scheduler.model import well_known
from scheduler.model.gpu.plugin_resources import without_gpus
from scheduler.model.mig.config import MigDeviceSpec
from scheduler.model.mig.gpu_models import gpu_model_of
from scheduler.model.mig.layout import GpuModel
from scheduler.model.mig.node_geometry import gpu_count, layout_for, memory_mib
from scheduler.model.mig.profile import canonical
from scheduler.model.node import Node

#: Labels of feature discovery for the instances of one profile begin so.
_OF_PROFILE: Final = well_known.MIG_PREFIX


def with_layout(node: Node, wanted: NewLayout) -> Node:
    """The node with the instances of the layout; InputError says why it cannot have them."""
    head = f"--layout {node.name}={wanted.text}"
    gpu_model, count = _gpus(node, head)
    try:
        layouts = _layouts(wanted, gpu_model, count)
    except Invalid as problem:
        raise InputError(f"{head}: {problem.problem}") from problem
    whole = sum(layout is None for layout in layouts)
    counts = Counter(slot[0] for layout in layouts for slot in layout or ())
    amounts = without_gpus(node.allocatable)
    held = {well_known.mig_resource(profile): number for profile, number in counts.items()}
    return msgspec.structs.replace(
        node,
        labels=_labels(node, counts, whole, wanted),
        annotations={k: v for k, v in node.annotations.items() if k != well_known.MIG_CONFIG},
        allocatable={**amounts, well_known.GPU: whole, **held},
        capacity={**without_gpus(node.capacity), well_known.GPU: whole, **held},
    )


def _gpus(node: Node, head: str) -> tuple[GpuModel, int]:
    if node.dynamic_mig is not None:
        raise InputError(f"{head}: the node has dynamic MIG, which needs no layout")
    if node.single_profile:
        raise InputError(f"{head}: the node has MIG strategy single; only mixed is supported")
    labels = node.labels
    profiles = (well_known.mig_profile(r) for r in node.allocatable if well_known.is_mig(r))
    model = gpu_model_of(labels.get(well_known.GPU_PRODUCT, ""), memory_mib(labels), profiles)
    if model is None:
        raise InputError(f"{head}: label {well_known.GPU_PRODUCT} names no board with MIG")
    count = gpu_count(labels) or node.geometry.total_gpus or node.physical_gpu_count
    if not count:
        raise InputError(f"{head}: the number of its GPUs is unknown ({well_known.GPU_COUNT})")
    return model, count


def _layouts(wanted: NewLayout, gpu_model: GpuModel, count: int) -> Layouts:
    if wanted.named:
        return by_name(wanted.named, (gpu_model,) * count)
    devices = tuple(MigDeviceSpec(canonical(profile)) for profile in wanted.profiles)
    layout, flaw = layout_for(gpu_model, devices)
    if layout is None:
        raise Invalid("", flaw or "no such layout")
    return (layout,) * count


def _labels(node: Node, counts: Counter[str], whole: int, wanted: NewLayout) -> dict[str, str]:
    """The labels of feature discovery and mig-manager, where the node has such labels."""
    labels = {k: v for k, v in node.labels.items() if not k.startswith(_OF_PROFILE)}
    if any(key.startswith(_OF_PROFILE) for key in node.labels):
        product = labels.get(well_known.GPU_PRODUCT, "")
        for profile, number in counts.items():
            resource = well_known.mig_resource(profile)
            labels[f"{resource}.count"] = str(number)
            labels[f"{resource}.replicas"] = "1"
            labels[f"{resource}.product"] = f"{product}-MIG-{profile}"
    if well_known.GPU_REPLICAS in labels and not whole:
        labels[well_known.GPU_REPLICAS] = "0"
    if well_known.MIG_WANTED in labels:
        labels[well_known.MIG_WANTED] = wanted.named or "custom"
    if well_known.MIG_STATE in labels:
        labels[well_known.MIG_STATE] = "success"
    return labels


def changed(nodes: Sequence[Node], layouts: Sequence[NewLayout]) -> dict[str, Node]:
    """The nodes with their new layouts, by name; InputError where a layout is impossible."""
    known = {node.name: node for node in nodes}
    return {one.node_name: with_layout(known[one.node_name], one) for one in layouts}
