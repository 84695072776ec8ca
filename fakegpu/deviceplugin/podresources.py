"""The kubelet's interface that tells which container holds what and in which NUMA zone, served for
tools that look for zones: a kubelet knows none of ours.

    pod-resources/kubelet.sock                             v1.PodResourcesLister, ``List``
    sys/devices/system/node/node<z>/cpulist                the processors of each zone

Every answer is made from what is known at that moment: nobody subscribes to anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from fakegpu.atomic_write import replace
from fakegpu.deviceplugin import messages
from fakegpu.deviceplugin.messages import (
    ContainerDevices,
    ContainerMemory,
    ContainerResources,
    Empty,
    NumaNode,
    PodResources,
    PodResourcesList,
    Topology,
)
from fakegpu.node.numa_charges import Charge, ContainerKey, Request, charges
from fakegpu.node.zones import cpulist, numa_of, processors
from fakegpu.rpc import STOP_S, listening, unary
from fakegpu.topology.node_topology import NodeTopology

SOCKET: Final = Path("pod-resources") / "kubelet.sock"
NODES: Final = Path("sys") / "devices" / "system" / "node"


class PodResourcesServer:
    """One node's; ``requests`` asks what the containers of the node want of its processors."""

    def __init__(
        self,
        folder: Path,
        topology: Callable[[], NodeTopology | None],
        requests: Callable[[], Awaitable[Mapping[ContainerKey, Request]]],
    ) -> None:
        self._folder = folder
        self._topology = topology
        self._requests = requests
        self._written: tuple[range, ...] | None = None
        self._server: grpc.aio.Server | None = None

    async def run(self) -> None:
        """Serve; ends by cancellation."""
        await self.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Listen on the socket."""
        methods = {"List": unary(self._list, Empty)}
        handler = grpc.method_handlers_generic_handler(messages.POD_RESOURCES, methods)
        self._server = await listening(self._folder / SOCKET, handler)

    async def stop(self) -> None:
        """Do not listen any more."""
        if self._server is not None:
            await self._server.stop(STOP_S)
        (self._folder / SOCKET).unlink(missing_ok=True)

    def show(self) -> None:
        """Write the zones' processors, where they changed."""
        topology = self._topology()
        zones = processors(numa_of(topology)) if topology else ()
        if zones == self._written:
            return
        for number, zone in enumerate(zones):
            replace(self._cpulist(number), f"{cpulist(zone)}\n".encode())
        for number in range(len(zones), len(self._written or ())):
            self._cpulist(number).unlink(missing_ok=True)
        self._written = zones

    def _cpulist(self, number: int) -> Path:
        return self._folder / NODES / f"node{number}" / "cpulist"

    async def _list(self, _request: Empty, _context: Any) -> PodResourcesList:
        topology = self._topology()
        if topology is None:
            return PodResourcesList()
        return listed(charges(topology, await self._requests()))


def listed(charged: Mapping[ContainerKey, tuple[Charge, ...]]) -> PodResourcesList:
    """The kubelet's message."""
    pods: dict[tuple[str, str], list[ContainerResources]] = {}
    for (namespace, pod, container), zones in charged.items():
        told = ContainerResources(
            container,
            tuple(
                ContainerDevices(resource, ids, _near(charge.zone))
                for charge in zones
                for resource, ids in charge.devices.items()
            ),
            tuple(number for charge in zones for number in charge.processors),
            tuple(
                ContainerMemory("memory", charge.memory, _near(charge.zone))
                for charge in zones
                if charge.memory
            ),
        )
        pods.setdefault((namespace, pod), []).append(told)
    return PodResourcesList(
        tuple(
            PodResources(name, namespace, tuple(containers))
            for (namespace, name), containers in pods.items()
        )
    )


def _near(zone: int) -> Topology:
    return Topology((NumaNode(zone),))
