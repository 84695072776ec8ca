"""The physical GPUs of a node: how many there are, whether all are cut, and who hands them out.

What is offered is not what is there. NVIDIA's device plugin (0.20) and feature discovery say::

    nvidia.com/gpu            capacity: GPUs x replicas; allocatable: less the unhealthy ones, and 0
                              while the plugin restarts; absent where every GPU is cut
    nvidia.com/gpu.count      GPUs, the cut ones too; with strategy single: slices, or 0
    nvidia.com/gpu.replicas   shares of one GPU; 0 where every GPU is cut
    nvidia.com/gpu.product    ends in -MIG-<profile> with strategy single, in -MIG-INVALID where the
                              GPUs are cut differently and the plugin offers nothing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.integer_text import whole
from scheduler.model.limits import NODE_GPUS_MAX
from scheduler.model.mig.node_geometry import replicas

_SLICED: Final = "-MIG-"


class OfferedGpus(msgspec.Struct, frozen=True):
    """What a node offers of GPUs when nothing is unhealthy: units of whole GPUs and of slices.

    ``whole`` is None where no resource counts whole GPUs. Of several names ``nvidia.com/gpu``
    counts, or the largest where that is 0 (its shares have another name then). ``is_any`` is true
    where any GPU resource is named, also with a count of 0: the kubelet keeps the name for as long
    as it runs, and a plugin that restarts still hands out the devices.
    """

    whole: int | None = None
    slices: int = 0
    is_any: bool = False


def offered(allocatable: Mapping[str, int], capacity: Mapping[str, int]) -> OfferedGpus:
    """What capacity says, and allocatable where that has more."""
    units = {
        resource: max(allocatable.get(resource, 0), capacity.get(resource, 0))
        for resource in (*capacity, *allocatable)
        if well_known.is_gpu_device(resource)
    }
    whole_units = {r: amount for r, amount in units.items() if not well_known.is_mig(r)}
    return OfferedGpus(
        whole=units.get(well_known.GPU) or max(whole_units.values(), default=None),
        slices=sum(amount for r, amount in units.items() if well_known.is_mig(r)),
        is_any=bool(units),
    )


def is_discovered(labels: Mapping[str, str]) -> bool:
    """Whether labels say that a device plugin or a DRA driver is here, beside the hardware.

    Feature discovery reads the plugin's configuration, and is installed with a plugin or with the
    GPU operator, which also says where it deploys the plugin. Labels of the hardware alone (its
    product, say) are also written by hand, on nodes where maps are all that there is.
    """
    return (
        any(label in labels for label in well_known.DISCOVERED)
        or labels.get(well_known.DEPLOY_PLUGIN) == "true"
        or _is_sliced(labels)
    )


def physical(labels: Mapping[str, str], offered: OfferedGpus, failed: int) -> int | None:
    """How many GPUs the node has, cut and failed ones too; None where nothing says it.

    ``failed`` is how many GPUs are known to be failed and may be missing in what is offered.
    """
    if _is_sliced(labels):
        return None  # what is counted there are slices
    said = whole(labels.get(well_known.GPU_COUNT, ""), NODE_GPUS_MAX)
    if said:
        return said
    if offered.whole is None or offered.slices:
        return None  # the cut ones are not in the count
    return -(-offered.whole // replicas(labels, well_known.GPU)) + failed


def are_cut(labels: Mapping[str, str], offered: OfferedGpus) -> bool:
    """Whether every GPU is cut into MIG instances."""
    return (
        _is_sliced(labels)
        or labels.get(well_known.GPU_REPLICAS) == "0"
        or (offered.slices > 0 and not offered.whole)
    )


def _is_sliced(labels: Mapping[str, str]) -> bool:
    """Whether strategy single counts slices as GPUs, or cannot because they are cut differently."""
    is_single = labels.get(well_known.MIG_STRATEGY, "single") == "single"
    return is_single and _SLICED in labels.get(well_known.GPU_PRODUCT, "")
