"""Runs a node's device plugins, one per resource, and keeps them registered with the kubelet.

A kubelet that starts removes every socket of the folder and refuses pods that need a plugin until
that plugin registers again. The manager polls the folder: when the kubelet's socket is another
file, or a plugin's socket is missing, every plugin starts and registers again.
A resource that loses its devices keeps its plugin with an empty list until the kubelet restarts; a
kubelet keeps such a resource as 0 too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import grpc.aio
import structlog

from fakegpu.deviceplugin.plugin import Allocator, Plugin, register
from fakegpu.kubelet import HEALTHY, UNHEALTHY
from fakegpu.kubelet.deviceplugin_pb2 import Device as PluginDevice
from fakegpu.node.advertised_devices import Device
from fakegpu.process import news_within
from scheduler.model.well_known import GPU

KUBELET_SOCKET: Final = "kubelet.sock"
GPU_SOCKET: Final = "fake-nvidia-gpu.sock"
LOOK_S: Final = 0.2
RETRY_S: Final = 1.0

log = structlog.get_logger("device-plugin")


class PluginManager:
    """Plugins in one folder."""

    def __init__(self, folder: Path, allocator: Allocator) -> None:
        self._folder = folder
        self._allocator = allocator
        self._plugins: dict[str, Plugin] = {}
        self._offered: frozenset[str] = frozenset()
        self._registered_with: object = None
        self._is_new = asyncio.Event()
        self.is_registered = False

    def update(self, units: Mapping[str, Sequence[Device]]) -> None:
        """Replace the node's devices, by resource."""
        self._offered = frozenset(units)
        for resource in units:
            if resource not in self._plugins:
                socket = self._folder / socket_name(resource)
                self._plugins[resource] = Plugin(resource, socket, self._allocator)
                self._is_new.set()
        for resource, plugin in self._plugins.items():
            plugin.update([_message(unit) for unit in units.get(resource, ())])

    async def run(self) -> None:
        """Keep every plugin registered until cancelled."""
        try:
            while True:
                is_well = await self._look()
                await news_within(self._is_new, LOOK_S if is_well else RETRY_S)
        finally:
            await self._stop()

    async def _look(self) -> bool:
        """Register unregistered plugins; False if the kubelet rejected one."""
        kubelet = self._folder / KUBELET_SOCKET
        identity = _identity(kubelet)
        if identity is None:
            self.is_registered = False
            return True
        is_other = identity != self._registered_with
        if is_other:
            await self._drop(self._plugins.keys() - self._offered)
        for plugin in list(self._plugins.values()):
            if is_other or not plugin.is_listening:
                try:
                    await plugin.stop()
                    await plugin.start()
                    await register(kubelet, plugin)
                except (grpc.aio.AioRpcError, TimeoutError, OSError, RuntimeError) as error:
                    log.warning("not registered", resource=plugin.resource, problem=_text(error))
                    self.is_registered = False
                    await plugin.stop()
                    return False
                log.info("registered", resource=plugin.resource)
        self._registered_with = identity
        self.is_registered = bool(self._plugins)
        return True

    async def _drop(self, resources: Iterable[str]) -> None:
        """Stop plugins permanently."""
        for resource in list(resources):
            await self._plugins.pop(resource).stop()

    async def _stop(self) -> None:
        self.is_registered = False
        await asyncio.gather(*(plugin.stop() for plugin in self._plugins.values()))


def _message(unit: Device) -> PluginDevice:
    return PluginDevice(ID=unit.id, health=HEALTHY if unit.is_healthy else UNHEALTHY)


def _identity(socket: Path) -> object:
    try:
        status = socket.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _text(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__


def socket_name(resource: str) -> str:
    """The file name of a resource's socket, as in the seed operator.

    >>> socket_name("nvidia.com/gpu"), socket_name("rdma/hca")
    ('fake-nvidia-gpu.sock', 'rdma_hca.sock')
    """
    if resource == GPU:
        return GPU_SOCKET
    return resource.translate(str.maketrans("/.-", "___")) + ".sock"
