"""One resource's plugin: tells the kubelet its units, and equips the containers that get some.

What it knows it is told (``tell``); what a container gets is the desk's to say. A plugin lives as
long as its socket file: a kubelet that starts removes all of them, and wants to be registered with
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from fakegpu.deviceplugin import messages
from fakegpu.deviceplugin.messages import Empty, Equipment, Ids, PluginDevice, Wish
from fakegpu.protobuf import encode
from fakegpu.rpc import STOP_S, call, listening, reader, unary


class Refused(Exception):
    """A container may not have what it asks for; the text becomes the pod's message."""


class Allocator(Protocol):
    """Who decides what containers get."""

    async def prefer(self, resource: str, wish: Wish) -> tuple[str, ...]:
        """The best of the free units."""

    async def equip(self, resource: str, ids: Sequence[str]) -> Equipment:
        """What a container gets with these units, or Refused."""


class Plugin:
    """One resource; started once, and stopped for good."""

    def __init__(self, resource: str, socket: Path, desk: Allocator) -> None:
        self.resource = resource
        self.socket = socket
        self._desk = desk
        self._devices: tuple[PluginDevice, ...] = ()
        self._changed = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    def tell(self, devices: Sequence[PluginDevice]) -> None:
        """These are the units now."""
        if tuple(devices) != self._devices:
            self._devices = tuple(devices)
            self._changed.set()
            self._changed = asyncio.Event()

    @property
    def is_there(self) -> bool:
        """Whether a kubelet can reach it."""
        return self._server is not None and self.socket.exists()

    async def start(self) -> None:
        """Listen on the socket."""
        self._server = await listening(self.socket, self._handler())

    async def stop(self) -> None:
        """Do not listen any more."""
        if self._server is not None:
            await self._server.stop(STOP_S)
            self._server = None
        self.socket.unlink(missing_ok=True)

    def _handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            messages.DEVICE_PLUGIN,
            {
                "GetDevicePluginOptions": unary(self._options, Empty),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list_and_watch, reader(Empty), encode
                ),
                "GetPreferredAllocation": unary(self._prefer, messages.PreferredRequest),
                "Allocate": unary(self._allocate, messages.AllocateRequest),
                "PreStartContainer": unary(self._pre_start, Ids),
            },
        )

    async def _options(self, _request: Empty, _context: Any) -> messages.Options:
        return OPTIONS

    async def _list_and_watch(
        self, _request: Empty, _context: Any
    ) -> AsyncIterator[messages.DeviceList]:
        while True:
            changed = self._changed
            yield messages.DeviceList(self._devices)
            await changed.wait()

    async def _prefer(
        self, request: messages.PreferredRequest, _context: Any
    ) -> messages.PreferredResponse:
        answers = [await self._desk.prefer(self.resource, wish) for wish in request.containers]
        return messages.PreferredResponse(tuple(Ids(answer) for answer in answers))

    async def _allocate(
        self, request: messages.AllocateRequest, context: Any
    ) -> messages.AllocateResponse:
        try:
            given = [await self._desk.equip(self.resource, one.ids) for one in request.containers]
        except Refused as problem:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(problem))
            raise AssertionError("an aborted call does not go on") from problem
        return messages.AllocateResponse(tuple(given))

    async def _pre_start(self, _request: Ids, _context: Any) -> Empty:
        return Empty()


OPTIONS: Final = messages.Options(get_preferred_allocation_available=True)


async def register(kubelet: Path, plugin: Plugin, timeout_s: float = 5.0) -> None:
    """Introduce a plugin to the kubelet; grpc.aio.AioRpcError or TimeoutError where that fails."""
    request = messages.RegisterRequest(
        messages.VERSION, plugin.socket.name, plugin.resource, OPTIONS
    )
    await call(kubelet, f"/{messages.REGISTRATION}/Register", request, Empty, timeout_s)


async def held(kubelet: Path, timeout_s: float = 5.0) -> messages.PodResourcesList:
    """Which container holds which units, as the kubelet knows it."""
    method, kind = f"/{messages.POD_RESOURCES}/List", messages.PodResourcesList
    return await call(kubelet, method, Empty(), kind, timeout_s)
