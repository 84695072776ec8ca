"""Tells the cluster which container the kubelet gave which units: ``assigned.json`` of the node.

The kubelet is asked every second, on a local socket; what it says is written when it changed. It is
the truth about who holds what, and the controller's topology follows it.
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
from fakegpu.deviceplugin.messages import PodResourcesList
from fakegpu.deviceplugin.plugin import held
from fakegpu.process import news_within
from scheduler.watch.client import ApiError, Unreachable

SOCKET: Final = Path("pod-resources") / "kubelet.sock"
LOOK_S: Final = 1.0

log = structlog.get_logger("fakegpu")


def told(listed: PodResourcesList, resources: Iterable[str]) -> dict[str, list[str]]:
    """``namespace/pod/container`` -> units of these resources."""
    ours = set(resources)
    found: dict[str, list[str]] = {}
    for pod in listed.pods:
        for container in pod.containers:
            ids = [i for one in container.devices if one.resource in ours for i in one.ids]
            if ids:
                found[f"{pod.namespace}/{pod.name}/{container.name}"] = sorted(ids)
    return found


class PodResourcesWatcher:
    """Writes what changed; ``write`` puts a text under a key of the node's ConfigMap."""

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

    def given(self) -> None:
        """A container was just given something: look at once."""
        self._news.set()

    async def run(self) -> None:
        """Follow the kubelet; ends only by cancellation."""
        while True:
            try:
                await self._look()
            except (grpc.aio.AioRpcError, TimeoutError, OSError):
                log.debug("the kubelet does not tell who holds what", socket=str(self._socket))
            except (ApiError, Unreachable) as error:
                log.warning("assigned devices not written", problem=str(error))
            await news_within(self._news, LOOK_S)

    async def _look(self) -> None:
        recorded = self._recorded()
        if recorded is None or not self._socket.exists():
            return
        found = told(await held(self._socket), self._resources())
        text = msgspec.json.encode(found, order="sorted").decode()
        if text != recorded:
            await self._write(names.ASSIGNED_KEY, text)
