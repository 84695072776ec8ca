"""Which resource names are GPUs: the one rule for webhook, scheduler and tools."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

VENDOR: Final = "nvidia.com/"

#: What network devices are called, in whole words and anywhere in the name.
_NETWORK_WORDS: Final = frozenset(
    ("bf", "cx", "dpu", "eth", "hca", "ib", "nic", "nics", "pf", "rail", "sf", "vf", "vfs")
)
_NETWORK: Final = re.compile(
    "asap2|bluefield|connectx|dummyresource|host[._-]?dev|infiniband|mellanox|mlnx|mlx|netdev|rdma"
    "|roce|sriov|switchdev"
)
#: What amounts of a GPU are called (HAMi: gpumem, gpumem-percentage, gpucores, priority).
_AMOUNTS: Final = frozenset(
    ("core", "cores", "gpucores", "gpumem", "mem", "memory", "percentage", "priority")
)
_LETTERS: Final = re.compile("[a-z]+")


def is_gpu_device(resource: str) -> bool:
    """Whether a device plugin that offers this resource hands out NVIDIA GPUs, or parts of them.

    NVIDIA's device plugin offers ``nvidia.com/gpu`` and ``nvidia.com/mig-*``, with ``.shared``
    behind the name where time-slicing or MPS renames, and its ``rename:`` may give any name below
    ``nvidia.com/``. KubeVirt's plugin offers names of boards (``nvidia.com/GA102GL_A10``). So every
    such name is a GPU unless its words say what else it is: a network device of NVIDIA's network
    operator (``nvidia.com/hostdev``, ``nvidia.com/sriov-rdma-vf``, ``nvidia.com/bf3_p0_sf``), or an
    amount instead of a device (``nvidia.com/gpumem``).

    A network device with an unknown name counts as a GPU. That costs a map its number on such a
    node, and an event says so; a GPU that counts as something else would be given to two pods.
    """
    return resource.startswith(VENDOR) and _names_gpu(resource)


@lru_cache(maxsize=4096)
def _names_gpu(resource: str) -> bool:
    name = resource.removeprefix(VENDOR).lower()
    words = frozenset(_LETTERS.findall(name))
    return bool(name) and not (words & (_NETWORK_WORDS | _AMOUNTS) or _NETWORK.search(name))
