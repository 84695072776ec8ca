"""The kubelet's side of the device plugin and pod resources APIs, over real gRPC sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from fakegpu.kubelet import DEVICE_PLUGIN, DEVICE_PLUGIN_REGISTRATION, POD_RESOURCES
from fakegpu.kubelet.deviceplugin_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    RegisterRequest,
)
from fakegpu.kubelet.podresources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse
from fakegpu.rpc import call, encode, listening, unary
from tests.patience import PATIENCE_S

M = TypeVar("M", bound=Message)


class MadeUpKubelet:
    """Its folder has the places of ``/var/lib/kubelet``; ``pods`` is what it tells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plugins = folder / "device-plugins"
        self.registered: asyncio.Queue[RegisterRequest] = asyncio.Queue()
        self.pods = ListPodResourcesResponse()
        self._servers: list[grpc.aio.Server] = []

    async def start(self) -> None:
        """As it starts: what lies in the plugins' folder is removed."""
        for place in (self.plugins, self.folder / "pod-resources"):
            place.mkdir(parents=True, exist_ok=True)
        for socket in self.plugins.glob("*.sock"):
            socket.unlink()
        services = (
            (
                self.plugins,
                DEVICE_PLUGIN_REGISTRATION,
                {"Register": unary(self._register, RegisterRequest)},
            ),
            (
                self.folder / "pod-resources",
                POD_RESOURCES,
                {"List": unary(self._list, ListPodResourcesRequest)},
            ),
        )
        for place, service, methods in services:
            handler = grpc.method_handlers_generic_handler(service, methods)
            self._servers.append(await listening(place / "kubelet.sock", handler))

    async def stop(self) -> None:
        """As it is killed."""
        for server in self._servers:
            await server.stop(0)
        self._servers = []

    async def next_plugin(self) -> RegisterRequest:
        """The next plugin that introduces itself."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.registered.get()

    async def options(self, endpoint: str) -> DevicePluginOptions:
        """What a plugin wants to be asked."""
        return await self._ask(endpoint, "GetDevicePluginOptions", Empty(), DevicePluginOptions)

    async def prefer(self, endpoint: str, available: Sequence[str], count: int) -> tuple[str, ...]:
        """Which of the free devices a plugin prefers."""
        container = ContainerPreferredAllocationRequest(
            available_deviceIDs=available, allocation_size=count
        )
        request = PreferredAllocationRequest(container_requests=[container])
        answer = await self._ask(
            endpoint, "GetPreferredAllocation", request, PreferredAllocationResponse
        )
        return tuple(answer.container_responses[0].deviceIDs)

    async def allocate(self, endpoint: str, *ids: str) -> ContainerAllocateResponse:
        """What a container gets with these devices; grpc.aio.AioRpcError where it is refused."""
        request = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=ids)])
        answer = await self._ask(endpoint, "Allocate", request, AllocateResponse)
        return answer.container_responses[0]

    async def lists(self, endpoint: str) -> AsyncGenerator[dict[str, str], None]:
        """Health by id, each time that the plugin tells."""
        async with grpc.aio.insecure_channel(f"unix://{self.plugins / endpoint}") as channel:
            listed = channel.unary_stream(
                f"/{DEVICE_PLUGIN}/ListAndWatch",
                request_serializer=encode,
                response_deserializer=ListAndWatchResponse.FromString,
            )
            async for told in listed(Empty(), timeout=PATIENCE_S):
                yield {device.ID: device.health for device in told.devices}

    async def _ask(self, endpoint: str, method: str, request: Message, kind: type[M]) -> M:
        method = f"/{DEVICE_PLUGIN}/{method}"
        return await call(self.plugins / endpoint, method, request, kind, PATIENCE_S)

    async def _register(self, request: RegisterRequest, _context: Any) -> Empty:
        self.registered.put_nowait(request)
        return Empty()

    async def _list(
        self, _request: ListPodResourcesRequest, _context: Any
    ) -> ListPodResourcesResponse:
        return self.pods
