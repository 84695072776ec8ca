"""A kubelet as a device plugin knows it: it registers, asks and tells, over real gRPC sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
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
from fakegpu.protobuf import Message, decode, encode

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
            server = grpc.aio.server()
            handler = grpc.unary_unary_rpc_method_handler(answer, partial(decode, kind), encode)
            handlers = grpc.method_handlers_generic_handler(service, {method: handler})
            server.add_generic_rpc_handlers((handlers,))
            server.add_insecure_port(f"unix://{place / 'kubelet.sock'}")
            await server.start()
            self._servers.append(server)

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
        async with self._channel(endpoint) as channel:
            call = channel.unary_stream(
                f"/{messages.DEVICE_PLUGIN}/ListAndWatch",
                request_serializer=encode,
                response_deserializer=partial(decode, DeviceList),
            )
            async for told in call(Empty(), timeout=PATIENCE_S):
                yield {device.id: device.health for device in told.devices}

    def _channel(self, endpoint: str) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(f"unix://{self.plugins / endpoint}")

    async def _ask(self, endpoint: str, method: str, request: Message, kind: type[M]) -> M:
        async with self._channel(endpoint) as channel:
            call = channel.unary_unary(
                f"/{messages.DEVICE_PLUGIN}/{method}",
                request_serializer=encode,
                response_deserializer=partial(decode, kind),
            )
            answer: M = await call(request, timeout=PATIENCE_S)
            return answer

    async def _register(self, request: RegisterRequest, _context: Any) -> Empty:
        self.registered.put_nowait(request)
        return Empty()

    async def _list(self, _request: Empty, _context: Any) -> PodResourcesList:
        return self.pods
