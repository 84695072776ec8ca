"""Which resource names are GPUs: the rule of webhook, scheduler and tools."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

VENDOR: Final = "nvidia.com/"

#: Names of network devices, as whole words anywhere in the resource name.
_NETWORK_WORDS: Final = frozenset(
    ("bf", "cx", "dpu", "eth", "hca", "ib", "nic", "nics", "pf", "rail", "sf", "vf", "vfs")
)
_NETWORK: Final = re.compile(
    "asap2|bluefield|connectx|dummyresource|host[._-]?dev|infiniband|mellanox|mlnx|mlx|netdev|rdma"
    "|roce|sriov|switchdev"
)
#: Names of amounts of a GPU (HAMi: gpumem, gpumem-percentage, gpucores, priority).
_AMOUNTS: Final = frozenset(
    ("core", "cores", "gpucores", "gpumem", "mem", "memory", "percentage", "priority")
)
_LETTERS: Final = re.compile("[a-z]+")


def is_gpu_device(resource: str) -> bool:
    """Whether a device plugin with this resource allocates NVIDIA GPUs, or parts of them.

    NVIDIA's device plugin advertises ``nvidia.com/gpu`` and ``nvidia.com/mig-*``, with the suffix
    ``.shared`` if time-slicing or MPS renames, and its ``rename:`` may give any name below
    ``nvidia.com/``. KubeVirt's plugin advertises names of boards (``nvidia.com/GA102GL_A10``). So
    every such name is a GPU unless its words show something else: a network device of NVIDIA's
    network operator (``nvidia.com/hostdev``, ``nvidia.com/sriov-rdma-vf``,
    ``nvidia.com/bf3_p0_sf``), or an amount instead of a device (``nvidia.com/gpumem``).

    A network device with an unknown name counts as a GPU. The cost is that a map has no index on
    such a node, and an event reports it. The opposite error would assign a GPU to two pods.
    """
    return resource.startswith(VENDOR) and _names_gpu(resource)


@lru_cache(maxsize=4096)
def _names_gpu(resource: str) -> bool:
    name = resource.removeprefix(VENDOR).lower()
    words = frozenset(_LETTERS.findall(name))
    return bool(name) and not (words & (_NETWORK_WORDS | _AMOUNTS) or _NETWORK.search(name))
