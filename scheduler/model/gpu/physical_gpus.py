"""The physical GPUs of a node: their number, the failed ones, and the component that allocates
them.

Advertised and physical GPUs differ. NVIDIA's device plugin (0.20) and feature discovery set::

    nvidia.com/gpu            capacity: GPUs x replicas; allocatable: less the unhealthy ones, and 0
                              while the plugin restarts; absent if every GPU has MIG instances
    nvidia.com/gpu.count      GPUs, including those with MIG; with strategy single: instances, or 0
    nvidia.com/gpu.replicas   shares of one GPU; 0 if every GPU has MIG instances
    nvidia.com/gpu.product    ends in -MIG-<profile> with strategy single, in -MIG-INVALID if the
                              GPUs have different instances and the plugin advertises nothing

Failed GPUs exist, but no pod may use them. The component that monitors the devices of a node lists
them in the annotation ``gpu-scheduler.io/unusable-devices``, and lowers what the node advertises.
The two updates are not simultaneous, so the advertised amounts are computed here as if they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import shown
from scheduler.model.integer_text import whole
from scheduler.model.limits import NODE_GPUS_MAX
from scheduler.model.mig.node_geometry import replicas

_SLICED: Final = "-MIG-"


class OfferedGpus(msgspec.Struct, frozen=True):
    """The GPUs that a node advertises with healthy devices: units of whole GPUs and of MIG
    instances.

    ``whole`` is None if no resource counts whole GPUs. Of several names ``nvidia.com/gpu`` counts,
    or the largest if that is 0 (its shares have another name then). ``is_any`` is true if any GPU
    resource is named, also with a count of 0: the kubelet keeps the name while it runs, and a
    restarting plugin still allocates the devices.
    """

    whole: int | None = None
    slices: int = 0
    is_any: bool = False


def offered(allocatable: Mapping[str, int], capacity: Mapping[str, int]) -> OfferedGpus:
    """Capacity, or allocatable if that is larger."""
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
    """Whether labels show a device plugin or a DRA driver, and not only hardware.

    Feature discovery reads the plugin's configuration, and is installed with a plugin or with the
    GPU operator, which also labels the nodes of the plugin. Labels of the hardware alone (its
    product, for example) are also written by hand, on nodes that use maps only.
    """
    return (
        any(label in labels for label in well_known.DISCOVERED)
        or labels.get(well_known.DEPLOY_PLUGIN) == "true"
        or _is_sliced(labels)
    )


def physical(labels: Mapping[str, str], offered: OfferedGpus, failed: int) -> int | None:
    """The number of GPUs of the node, including failed ones and those with MIG; None if unknown.

    ``failed`` is the number of GPUs that are known to be failed and may be missing in ``offered``.
    """
    if _is_sliced(labels):
        return None  # MIG instances are counted there
    labelled = whole(labels.get(well_known.GPU_COUNT, ""), NODE_GPUS_MAX)
    if labelled:
        return labelled
    if offered.whole is None or offered.slices:
        return None  # GPUs with MIG are not in the count
    return -(-offered.whole // replicas(labels, well_known.GPU)) + failed


def all_have_mig(labels: Mapping[str, str], offered: OfferedGpus) -> bool:
    """Whether every GPU has MIG instances."""
    return (
        _is_sliced(labels)
        or labels.get(well_known.GPU_REPLICAS) == "0"
        or (offered.slices > 0 and not offered.whole)
    )


def _is_sliced(labels: Mapping[str, str]) -> bool:
    """Whether strategy single counts MIG instances as GPUs, or nothing because the GPUs differ."""
    is_single = labels.get(well_known.MIG_STRATEGY, "single") == "single"
    return is_single and _SLICED in labels.get(well_known.GPU_PRODUCT, "")


def failed_gpus(annotations: Mapping[str, str]) -> frozenset[int]:
    """The indexes of failed GPUs, as far as they are valid (see ``flaw``)."""
    return _read(annotations.get(well_known.UNUSABLE_DEVICES, ""))[0]


def flaw(annotations: Mapping[str, str]) -> str:
    """The problem of the annotation; empty if it is valid.

    With an invalid annotation the failed GPUs are unknown, so none of the node's may be used.
    """
    return _read(annotations.get(well_known.UNUSABLE_DEVICES, ""))[1]


@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[frozenset[int], str]:
    words = text.split(",", NODE_GPUS_MAX)
    if len(words) > NODE_GPUS_MAX:
        return frozenset(), f"names more than {NODE_GPUS_MAX} GPUs"
    found: set[int] = set()
    for word in filter(None, map(str.strip, words)):
        index = whole(word, NODE_GPUS_MAX - 1)
        if index is None:
            what = f"{shown(word, 40)} is no index from 0 to {NODE_GPUS_MAX - 1}"
            return frozenset(), f"{what}; write for example 1,3"
        found.add(index)
    return frozenset(found), ""


def index_count(labels: Mapping[str, str], annotations: Mapping[str, str], offered: int) -> int:
    """The number of GPU indexes on an index-assigned node, including failed GPUs."""
    count = whole(labels.get(well_known.GPU_COUNT, ""), NODE_GPUS_MAX)
    return offered + len(failed_gpus(annotations)) if count is None else count


def usable(
    labels: Mapping[str, str], annotations: Mapping[str, str], allocatable: dict[str, int]
) -> dict[str, int]:
    """Allocatable without recently failed GPUs, on index-assigned nodes."""
    failed = failed_gpus(annotations)
    offered = allocatable.get(well_known.GPU, 0)
    if not failed or not offered or labels.get(well_known.NUMBERED) != "numbered":
        return allocatable
    sound = max(0, index_count(labels, annotations, offered) - len(failed))
    return allocatable if offered <= sound else {**allocatable, well_known.GPU: sound}
