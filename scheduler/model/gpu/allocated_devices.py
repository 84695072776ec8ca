"""The device ids and device health that a kubelet reports for a pod.

``status.containerStatuses[].allocatedResourcesStatus`` (KEP 4680, on since Kubernetes 1.36). The
kubelet writes it for app containers only, and for device plugins and claims alike::

    {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-3f0c...", "health": "Healthy"}]}
    {"name": "claim:gpu/0", "resources": [{"resourceID": "gpu.nvidia.com/n1/gpu-0", ...}]}

An id identifies a device and does not contain its index. The index is known only from a published
table (annotation ``gpu-scheduler.io/gpu-ids`` of a node). Without the field nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from scheduler.model import limits
from scheduler.model.well_known import VENDOR, is_gpu_device

UNHEALTHY: Final = "Unhealthy"
CLAIM: Final = "claim:"
#: Between a device's id and the number of its share (NVIDIA's device plugin, time-slicing and MPS).
_SHARE: Final = "::"
_SHOWN_MAX: Final = 80
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class AllocatedDevice(msgspec.Struct, frozen=True, gc=False):
    """One device of a container; ``resource`` is a plugin's resource or ``claim:NAME/REQUEST``."""

    resource: str
    id: str
    health: str = ""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU of NVIDIA, by the resource or by the driver in a claim's id."""
        if self.resource.startswith(CLAIM):
            return VENDOR in self.id
        return is_gpu_device(self.resource)

    @property
    def is_share(self) -> bool:
        """Whether it is a share, so other pods may have a share of the same device."""
        return _SHARE in self.id or self.resource.startswith(CLAIM)

    @property
    def gpu(self) -> str:
        """The id of the device itself, without the number of the share.

        >>> AllocatedDevice("nvidia.com/gpu", "GPU-3f0c::2").gpu
        'GPU-3f0c'
        """
        return self.id.partition(_SHARE)[0]


def shown_id(text: str) -> str:
    """An id for messages: NVIDIA's have 40 characters; longer ones are cut."""
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


def unhealthy(devices: tuple[AllocatedDevice, ...]) -> frozenset[str]:
    """The ids of the GPUs that are reported as unhealthy."""
    return frozenset(one.id for one in devices if one.health == UNHEALTHY and one.is_gpu)


@lru_cache(maxsize=4096)
def table(text: str) -> Mapping[str, int]:
    """``GPU-a,GPU-b`` in the order of their indexes -> index by id; empty for an invalid text."""
    if not text or len(text) > limits.GPU_IDS_LENGTH_MAX:
        return _NOTHING
    words = text.split(",", limits.NODE_GPUS_MAX)
    found = {word.strip(): index for index, word in enumerate(words)}
    is_sound = len(found) == len(words) <= limits.NODE_GPUS_MAX and "" not in found
    return MappingProxyType(found) if is_sound else _NOTHING
