"""One resource's device plugin: reports devices to the kubelet, allocates them to containers.

``update`` sets the devices; the allocator decides what a container gets. A plugin lives as long as
its socket file: a kubelet that starts removes every such file, and each plugin registers again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from fakegpu import kubelet
from fakegpu.kubelet.deviceplugin_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
)
from fakegpu.kubelet.podresources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse
from fakegpu.rpc import STOP_S, call, listening, server_stream, unary

OPTIONS: Final = DevicePluginOptions(get_preferred_allocation_available=True)


class Refused(Exception):
    """A container may not have the requested devices; the text becomes the pod's message."""


class Allocator(Protocol):
    """Decides which devices a container gets, and with which environment and mounts."""

    async def prefer(
        self, resource: str, request: ContainerPreferredAllocationRequest
    ) -> Sequence[str]:
        """The best of the free devices."""

    async def allocate(self, resource: str, ids: Sequence[str]) -> ContainerAllocateResponse:
        """What a container gets with these devices, or Refused."""


class Plugin:
    """One resource; started once, stopped permanently."""

    def __init__(self, resource: str, socket: Path, allocator: Allocator) -> None:
        self.resource = resource
        self.socket = socket
        self._allocator = allocator
        self._devices: tuple[Device, ...] = ()
        self._changed = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    def update(self, devices: Sequence[Device]) -> None:
        """Replace the devices; the kubelet gets the new list."""
        if tuple(devices) != self._devices:
            self._devices = tuple(devices)
            self._changed.set()
            self._changed = asyncio.Event()

    @property
    def is_listening(self) -> bool:
        """Whether a kubelet can connect."""
        return self._server is not None and self.socket.exists()

    async def start(self) -> None:
        """Listen on the socket."""
        self._server = await listening(self.socket, self._handler())

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.stop(STOP_S)
            self._server = None
        self.socket.unlink(missing_ok=True)

    def _handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            kubelet.DEVICE_PLUGIN,
            {
                "GetDevicePluginOptions": unary(self._options, Empty),
                "ListAndWatch": server_stream(self._list_and_watch, Empty),
                "GetPreferredAllocation": unary(self._prefer, PreferredAllocationRequest),
                "Allocate": unary(self._allocate, AllocateRequest),
                "PreStartContainer": unary(self._pre_start, PreStartContainerRequest),
            },
        )

    async def _options(self, _request: Empty, _context: Any) -> DevicePluginOptions:
        return OPTIONS

    async def _list_and_watch(
        self, _request: Empty, _context: Any
    ) -> AsyncIterator[ListAndWatchResponse]:
        while True:
            changed = self._changed
            yield ListAndWatchResponse(devices=self._devices)
            await changed.wait()

    async def _prefer(
        self, request: PreferredAllocationRequest, _context: Any
    ) -> PreferredAllocationResponse:
        answers = [
            await self._allocator.prefer(self.resource, container)
            for container in request.container_requests
        ]
        return PreferredAllocationResponse(
            container_responses=[
                ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in answers
            ]
        )

    async def _allocate(self, request: AllocateRequest, context: Any) -> AllocateResponse:
        try:
            responses = [
                await self._allocator.allocate(self.resource, container.devices_ids)
                for container in request.container_requests
            ]
        except Refused as problem:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(problem))
            raise AssertionError("context.abort raises") from problem
        return AllocateResponse(container_responses=responses)

    async def _pre_start(
        self, _request: PreStartContainerRequest, _context: Any
    ) -> PreStartContainerResponse:
        return PreStartContainerResponse()


async def register(socket: Path, plugin: Plugin, timeout_s: float = 5.0) -> None:
    """Register a plugin with the kubelet; raises grpc.aio.AioRpcError or TimeoutError."""
    request = RegisterRequest(
        version=kubelet.DEVICE_PLUGIN_VERSION,
        endpoint=plugin.socket.name,
        resource_name=plugin.resource,
        options=OPTIONS,
    )
    await call(socket, f"/{kubelet.DEVICE_PLUGIN_REGISTRATION}/Register", request, Empty, timeout_s)


async def list_pod_resources(socket: Path, timeout_s: float = 5.0) -> ListPodResourcesResponse:
    """The devices of each container, from the kubelet."""
    return await call(
        socket,
        f"/{kubelet.POD_RESOURCES}/List",
        ListPodResourcesRequest(),
        ListPodResourcesResponse,
        timeout_s,
    )
