"""Writes the device assignments that the kubelet reports to ``assigned.json``.

The watcher polls the kubelet's pod resources API every second and writes changes. The kubelet is
the source of truth for allocations; the controller's topology follows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

import grpc.aio
import msgspec
import structlog

from fakegpu import names
from fakegpu.deviceplugin.plugin import list_pod_resources
from fakegpu.kubelet.podresources_pb2 import ListPodResourcesResponse
from fakegpu.process import news_within
from scheduler.watch.client import ApiError, Unreachable

SOCKET: Final = Path("pod-resources") / "kubelet.sock"
POLL_S: Final = 1.0

log = structlog.get_logger("fakegpu")


def assigned(listed: ListPodResourcesResponse, resources: Iterable[str]) -> dict[str, list[str]]:
    """``namespace/pod/container`` -> devices of these resources."""
    ours = set(resources)
    found: dict[str, list[str]] = {}
    for pod in listed.pod_resources:
        for container in pod.containers:
            ids = [
                device
                for held in container.devices
                if held.resource_name in ours
                for device in held.device_ids
            ]
            if ids:
                found[f"{pod.namespace}/{pod.name}/{container.name}"] = sorted(ids)
    return found


class PodResourcesWatcher:
    """Writes changes; ``write`` stores a text under a key of the node's ConfigMap."""

    def __init__(
        self,
        kubelet_folder: Path,
        resources: Callable[[], Iterable[str]],
        recorded: Callable[[], str | None],
        write: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._socket = kubelet_folder / SOCKET
        self._resources = resources
        self._recorded = recorded
        self._write = write
        self._news = asyncio.Event()

    def poll_now(self) -> None:
        """Poll at once: a container was just allocated devices."""
        self._news.set()

    async def run(self) -> None:
        """Poll the kubelet until cancelled."""
        while True:
            try:
                await self._poll()
            except (grpc.aio.AioRpcError, TimeoutError, OSError):
                log.debug("allocations of the kubelet not read", socket=str(self._socket))
            except (ApiError, Unreachable) as error:
                log.warning("assigned devices not written", problem=str(error))
            await news_within(self._news, POLL_S)

    async def _poll(self) -> None:
        recorded = self._recorded()
        if recorded is None or not self._socket.exists():
            return
        found = assigned(await list_pod_resources(self._socket), self._resources())
        text = msgspec.json.encode(found, order="sorted").decode()
        if text != recorded:
            await self._write(names.ASSIGNED_KEY, text)
