"""A kubelet as a device plugin knows it: it registers, asks and tells, over real gRPC sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from fakegpu.deviceplugin import messages
from fakegpu.deviceplugin.messages import (
    AllocateRequest,
    AllocateResponse,
    DeviceList,
    Empty,
    Ids,
    Options,
    PodResourcesList,
    PreferredRequest,
    PreferredResponse,
    RegisterRequest,
    Wish,
)
from fakegpu.protobuf import Message, encode
from fakegpu.rpc import call, listening, reader, unary

PATIENCE_S: Final = 10.0
M = TypeVar("M", bound=Message)


class MadeUpKubelet:
    """Its folder has the places of ``/var/lib/kubelet``; ``pods`` is what it tells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plugins = folder / "device-plugins"
        self.registered: asyncio.Queue[RegisterRequest] = asyncio.Queue()
        self.pods = PodResourcesList()
        self._servers: list[grpc.aio.Server] = []

    async def start(self) -> None:
        """As it starts: what lies in the plugins' folder is removed."""
        for place in (self.plugins, self.folder / "pod-resources"):
            place.mkdir(parents=True, exist_ok=True)
        for socket in self.plugins.glob("*.sock"):
            socket.unlink()
        services = (
            (self.plugins, messages.REGISTRATION, "Register", self._register, RegisterRequest),
            (self.folder / "pod-resources", messages.POD_RESOURCES, "List", self._list, Empty),
        )
        for place, service, method, answer, kind in services:
            methods = {method: unary(answer, kind)}
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

    async def options(self, endpoint: str) -> Options:
        """What a plugin wants to be asked."""
        return await self._ask(endpoint, "GetDevicePluginOptions", Empty(), Options)

    async def prefer(self, endpoint: str, wish: Wish) -> tuple[str, ...]:
        """Which of the free units a plugin would like to give."""
        request = PreferredRequest((wish,))
        answer = await self._ask(endpoint, "GetPreferredAllocation", request, PreferredResponse)
        return answer.containers[0].ids

    async def allocate(self, endpoint: str, *ids: str) -> messages.Equipment:
        """What a container gets with these units; grpc.aio.AioRpcError where it may not."""
        request = AllocateRequest((Ids(ids),))
        answer = await self._ask(endpoint, "Allocate", request, AllocateResponse)
        return answer.containers[0]

    async def lists(self, endpoint: str) -> AsyncGenerator[dict[str, str], None]:
        """Health by id, each time that the plugin tells."""
        async with grpc.aio.insecure_channel(f"unix://{self.plugins / endpoint}") as channel:
            listed = channel.unary_stream(
                f"/{messages.DEVICE_PLUGIN}/ListAndWatch",
                request_serializer=encode,
                response_deserializer=reader(DeviceList),
            )
            async for told in listed(Empty(), timeout=PATIENCE_S):
                yield {device.id: device.health for device in told.devices}

    async def _ask(self, endpoint: str, method: str, request: Message, kind: type[M]) -> M:
        method = f"/{messages.DEVICE_PLUGIN}/{method}"
        return await call(self.plugins / endpoint, method, request, kind, PATIENCE_S)

    async def _register(self, request: RegisterRequest, _context: Any) -> Empty:
        self.registered.put_nowait(request)
        return Empty()

    async def _list(self, _request: Empty, _context: Any) -> PodResourcesList:
        return self.pods
