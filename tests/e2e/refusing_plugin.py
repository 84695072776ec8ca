"""A device plugin with broken GPUs, as a program on the real node.

    refusingplugin.py GPUS BROKEN MOST

``BROKEN`` of the ``GPUS`` are there and healthy for the kubelet, and Allocate fails on them as it
does where NVML has lost a GPU. More than ``MOST`` are refused in NVIDIA's words for shared GPUs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from fakegpu.deviceplugin.plugin import Plugin, Refused, register
from fakegpu.kubelet import HEALTHY
from fakegpu.kubelet.deviceplugin_pb2 import (
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    Device,
)

GPU = "nvidia.com/gpu"
FOLDER = Path("/var/lib/kubelet/device-plugins")


class RefusingAllocator:
    """Gives good GPUs first, and broken ones where no others are left."""

    def __init__(self, broken: int, most: int) -> None:
        self._broken = {f"gpu-{number}" for number in range(broken)}
        self._most = most

    async def prefer(
        self, resource: str, request: ContainerPreferredAllocationRequest
    ) -> Sequence[str]:
        """The good ones before the broken ones."""
        assert resource == GPU
        in_order = sorted(request.available_deviceIDs, key=lambda one: one in self._broken)
        return in_order[: request.allocation_size]

    async def allocate(self, resource: str, ids: Sequence[str]) -> ContainerAllocateResponse:
        """Nothing at all: the containers of these tests look at no GPU."""
        if len(ids) > self._most:
            raise Refused(
                f'invalid allocation request for "{resource}": invalid request: maximum request'
                f" size for shared resources is {self._most}; found {len(ids)}"
            )
        lost = sorted(self._broken.intersection(ids))
        if lost:
            raise Refused(f"error creating nvml.Device {lost[0]}: nvml: GPU is lost")
        return ContainerAllocateResponse()


async def main(gpus: int, broken: int, most: int) -> None:
    """Serve until killed."""
    plugin = Plugin(GPU, FOLDER / "refusing.sock", RefusingAllocator(broken, most))
    plugin.update([Device(ID=f"gpu-{number}", health=HEALTHY) for number in range(gpus)])
    await plugin.start()
    await register(FOLDER / "kubelet.sock", plugin)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
