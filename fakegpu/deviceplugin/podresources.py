"""Serves the kubelet's pod resources API with our NUMA zones, for tools that read zones from it.

    pod-resources/kubelet.sock                             v1.PodResourcesLister, ``List``
    sys/devices/system/node/node<z>/cpulist                the processors of each zone

Each response is computed from the state at the time of the request; there is no watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from fakegpu.atomic_write import replace
from fakegpu.kubelet import POD_RESOURCES
from fakegpu.kubelet.podresources_pb2 import (
    ContainerDevices,
    ContainerMemory,
    ContainerResources,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    NUMANode,
    PodResources,
    TopologyInfo,
)
from fakegpu.node.numa_zones import (
    Charge,
    ContainerKey,
    Request,
    charges,
    cpulist,
    numa_of,
    processors,
)
from fakegpu.rpc import STOP_S, listening, unary
from fakegpu.topology.node_topology import NodeTopology

SOCKET: Final = Path("pod-resources") / "kubelet.sock"
NODES: Final = Path("sys") / "devices" / "system" / "node"


class PodResourcesServer:
    """One node's server; ``requests`` reads the processor requests of the node's containers."""

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
        """Serve until cancelled."""
        await self.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Listen on the socket."""
        methods = {"List": unary(self._list, ListPodResourcesRequest)}
        handler = grpc.method_handlers_generic_handler(POD_RESOURCES, methods)
        self._server = await listening(self._folder / SOCKET, handler)

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.stop(STOP_S)
        (self._folder / SOCKET).unlink(missing_ok=True)

    def show(self) -> None:
        """Write the CPUs of the zones if they changed."""
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

    async def _list(
        self, _request: ListPodResourcesRequest, _context: Any
    ) -> ListPodResourcesResponse:
        topology = self._topology()
        if topology is None:
            return ListPodResourcesResponse()
        return listed(charges(topology, await self._requests()))


def listed(charged: Mapping[ContainerKey, tuple[Charge, ...]]) -> ListPodResourcesResponse:
    """The response of ``List``."""
    pods: dict[tuple[str, str], list[ContainerResources]] = {}
    for (namespace, pod, container), zones in charged.items():
        resources = ContainerResources(
            name=container,
            devices=[
                ContainerDevices(resource_name=resource, device_ids=ids, topology=_near(charge))
                for charge in zones
                for resource, ids in charge.devices.items()
            ],
            cpu_ids=[number for charge in zones for number in charge.processors],
            memory=[
                ContainerMemory(memory_type="memory", size=charge.memory, topology=_near(charge))
                for charge in zones
                if charge.memory
            ],
        )
        pods.setdefault((namespace, pod), []).append(resources)
    return ListPodResourcesResponse(
        pod_resources=[
            PodResources(name=name, namespace=namespace, containers=containers)
            for (namespace, name), containers in pods.items()
        ]
    )


def _near(charge: Charge) -> TopologyInfo:
    return TopologyInfo(nodes=[NUMANode(ID=charge.zone)])
