"""Names and absences of a device plugin's resources, as NVIDIA's plugin has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.model import well_known

SHARED: Final = ".shared"


def unshared(allocatable: Mapping[str, int]) -> dict[str, int]:
    """The amounts under the names without what a plugin adds that renames shared devices.

    >>> unshared({"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 8})
    {'nvidia.com/gpu': 8}
    """
    found: dict[str, int] = {}
    for resource, amount in allocatable.items():
        name = resource.removesuffix(SHARED)
        found[name] = found.get(name, 0) + amount
    return found


def with_no_whole_gpu(labels: Mapping[str, str], allocatable: dict[str, int]) -> dict[str, int]:
    """The allocatable with 0 whole GPUs where a plugin is there that does not know any.

    So it is where the plugin was started after every GPU was cut, and in strategy ``single`` on
    GPUs that are cut differently. Without the resource such a node would look like one where nobody
    hands out GPUs; feature discovery's label tells the two apart.
    """
    if labels.get(well_known.GPU_REPLICAS) == "0" and well_known.GPU not in allocatable:
        return {**allocatable, well_known.GPU: 0}
    return allocatable
