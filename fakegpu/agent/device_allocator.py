"""Allocates devices to containers: the scheduler's choice, and nvidia-smi with their telemetry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import grpc.aio
import msgspec
import structlog

from fakegpu import pod_decode
from fakegpu.agent.host_dir import IN_CONTAINER, SMI_IN_CONTAINER, HostDir
from fakegpu.deviceplugin.plugin import Refused, list_pod_resources
from fakegpu.kubelet.deviceplugin_pb2 import (
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    Mount,
)
from fakegpu.kubelet.podresources_pb2 import ListPodResourcesResponse
from fakegpu.node.advertised_devices import physical
from fakegpu.node.node_labels import PREFIX
from fakegpu.node.pod_devices import PodUse
from fakegpu.node.preferred_allocation import Ask, Known, preferred, refusal
from fakegpu.topology.node_topology import NodeTopology
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.decode.api_types import Listed

PODS_S: Final = 3.0
KUBELET_S: Final = 2.0

log = structlog.get_logger("device-plugin")
_LIST = msgspec.json.Decoder(Listed)


class DeviceAllocator:
    """One node's allocator; ``topology`` is None until it is known."""

    def __init__(
        self,
        client: Client,
        node: str,
        reservations: str,
        folder: HostDir,
        kubelet: Path,
        topology: Callable[[], NodeTopology | None],
        on_allocated: Callable[[], None],
    ) -> None:
        self._client = client
        self._node = node
        self._read_pod = pod_decode.pod(reservations)
        self._folder = folder
        self._kubelet = kubelet
        self._topology = topology
        self._on_allocated = on_allocated

    async def prefer(
        self, resource: str, request: ContainerPreferredAllocationRequest
    ) -> tuple[str, ...]:
        """The devices that were chosen for the starting pod; else the best spread.

        The pods are read at each request: their content from the API server, and the admitted ones
        from the kubelet, which may know a pod before the watch does.
        """
        topology = self._topology()
        if topology is None:
            return ()
        ask = Ask(
            resource=resource,
            count=request.allocation_size,
            available=tuple(request.available_deviceIDs),
            must=tuple(request.must_include_deviceIDs),
        )
        pods, known = await asyncio.gather(self._pods(), self._known(resource))
        return preferred(topology, ask, pods, known)

    async def _known(self, resource: str) -> Known:
        try:
            listed = await list_pod_resources(self._kubelet, KUBELET_S)
        except (grpc.aio.AioRpcError, TimeoutError, OSError) as error:
            log.warning("pods of the kubelet not read", problem=str(error))
            return Known()
        return known_of(listed, resource)

    async def _pods(self) -> list[PodUse]:
        params = {"fieldSelector": f"spec.nodeName={self._node}"}
        try:
            content = await self._client.request(
                "GET", "/api/v1/pods", params=params, timeout_s=PODS_S
            )
        except (ApiError, Unreachable) as error:
            log.warning("pods unknown, devices assigned by index", problem=str(error))
            return []
        facts = (self._read_pod(bytes(item))[1] for item in _LIST.decode(content).items or ())
        return [one.use for one in facts if one is not None]

    async def allocate(self, resource: str, ids: Sequence[str]) -> ContainerAllocateResponse:
        """The seed operator's environment and mount, and the directories of the devices."""
        topology = self._topology()
        problem = refusal(topology, resource, len(ids)) if topology else "no topology yet"
        if problem:
            raise Refused(problem)
        log.info("allocated", resource=resource, devices=",".join(ids))
        self._on_allocated()
        devices = list(dict.fromkeys(physical(one) for one in ids))
        if not resource.startswith(PREFIX) and not devices[0].startswith(("GPU-", "MIG-")):
            return ContainerAllocateResponse()
        mounts = [
            _mount(IN_CONTAINER / device, self._folder.device_on_host(device)) for device in devices
        ]
        if self._folder.has_smi:
            mounts.append(_mount(SMI_IN_CONTAINER, self._folder.smi_on_host()))
        return ContainerAllocateResponse(
            envs={
                "MOCK_NVIDIA_VISIBLE_DEVICES": ",".join(devices),
                "NVIDIA_VISIBLE_DEVICES": ",".join(devices),
                "NODE_NAME": self._node,
            },
            mounts=mounts,
        )


def _mount(in_container: Path, on_host: str) -> Mount:
    return Mount(container_path=str(in_container), host_path=on_host, read_only=True)


def known_of(listed: ListPodResourcesResponse, resource: str) -> Known:
    """The pods that the kubelet has admitted, and their containers that hold a resource."""
    return Known(
        frozenset((pod.namespace, pod.name) for pod in listed.pod_resources),
        frozenset(
            (pod.namespace, pod.name, container.name)
            for pod in listed.pod_resources
            for container in pod.containers
            if any(held.resource_name == resource and held.device_ids for held in container.devices)
        ),
    )
