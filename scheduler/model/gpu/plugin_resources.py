"""Resource names of NVIDIA's device plugin, and resources that it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.model import well_known

SHARED: Final = ".shared"


def unshared(allocatable: Mapping[str, int]) -> dict[str, int]:
    """The amounts by resource name, without the suffix for renamed shared devices.

    >>> unshared({"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 8})
    {'nvidia.com/gpu': 8}
    """
    found: dict[str, int] = {}
    for resource, amount in allocatable.items():
        name = resource.removesuffix(SHARED)
        found[name] = found.get(name, 0) + amount
    return found


def with_no_whole_gpu(labels: Mapping[str, str], allocatable: dict[str, int]) -> dict[str, int]:
    """Allocatable with 0 whole GPUs if a plugin runs that advertises none.

    A plugin does so if it started after every GPU got MIG instances, and in strategy ``single`` on
    GPUs with different instances. Without the resource such a node would look like one without a
    device plugin; feature discovery's label distinguishes the two.
    """
    if labels.get(well_known.GPU_REPLICAS) == "0" and well_known.GPU not in allocatable:
        return {**allocatable, well_known.GPU: 0}
    return allocatable


def without_gpus(amounts: Mapping[str, int]) -> dict[str, int]:
    """The amounts of everything but whole GPUs and MIG instances.

    >>> without_gpus({"cpu": 4, "nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 7})
    {'cpu': 4}
    """
    return {
        resource: amount
        for resource, amount in amounts.items()
        if not (well_known.is_mig(resource) or resource == well_known.GPU)
    }
