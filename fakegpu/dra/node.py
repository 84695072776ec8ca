"""DRA on one node: its GPUs published, and its kubelet's claims prepared."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from fakegpu import names, wire
from fakegpu.config import Config
from fakegpu.dra.cdi import CdiFolder
from fakegpu.dra.checkpoint import Checkpoint
from fakegpu.dra.driver import Driver
from fakegpu.dra.gpus import CDI_KIND, Gpus
from fakegpu.dra.pool import Pool
from fakegpu.dra.preparing import Preparer
from fakegpu.dra.publisher import Publisher
from fakegpu.dra.records import Slices
from fakegpu.dra.wire import SLICES, SliceFacts, resource_slice
from fakegpu.node.slices import contents
from fakegpu.process import news_within
from fakegpu.topology.nodetopology import NodeTopology
from fakegpu.wire import Meta, News
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.reflector import Reflector

LOOK_S: Final = 30.0
RETRY_S: Final = 2.0
CHECKPOINT: Final = "checkpoint.json"

log = structlog.get_logger("dra")


class _Node(msgspec.Struct, frozen=True):
    metadata: Meta


class NodeDra:
    """The stages of one node's agent that have to do with DRA."""

    def __init__(
        self,
        config: Config,
        client: Client,
        node: str,
        kind: Gpus,
        manager: str,
    ) -> None:
        self._client = client
        self._node = node
        self._topology: NodeTopology | None = None
        self._is_told = asyncio.Event()
        self._slices = Slices()
        self._publisher = Publisher(client, self._slices, manager)
        self._news = asyncio.Event()
        settings, kubelet = config.dra, Path(config.node.kubelet_folder)
        folder = Path(settings.plugins_folder or kubelet / "plugins") / kind.driver
        registrar = Path(settings.registrar_folder or kubelet / "plugins_registry")
        cdi = CdiFolder(Path(settings.cdi_folder), CDI_KIND)
        self._preparer = Preparer(client, node, kind, cdi, Checkpoint(folder / CHECKPOINT))
        health = f"{config.node.host}:{settings.health_port}" if settings.health_port else ""
        self._driver = Driver(kind.driver, folder, registrar, self._preparer, health)

    def tell(self, topology: NodeTopology | None) -> None:
        """This is the topology now; None where the node is in no pool."""
        self._topology = topology
        self._is_told.set()
        self._news.set()

    def not_ready(self) -> str | None:
        """Why the kubelet cannot ask for claims; None where it can."""
        return None if self._driver.is_registered else "the kubelet has not taken the DRA driver"

    def stages(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What has to run, by name."""
        self._preparer.begin()
        yield "claims", self._driver.run()
        yield "slices", self._watch()

    async def _watch(self) -> None:
        ours = f"spec.driver={names.DRA_DRIVER},spec.nodeName={self._node}"
        source = wire.source("slices", SLICES, resource_slice, lambda news: news, ours)
        reflector = Reflector(self._client, source, self._fold, self._broke, random.Random())
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(), name="reflector")
            await reflector.is_synced.wait()
            await self._is_told.wait()
            await self._publish()

    def _fold(self, news: News[SliceFacts]) -> None:
        if self._slices.fold(news):
            self._news.set()

    async def _publish(self) -> None:
        """Keep the slices as the topology is; a kubelet takes them away when it misses us."""
        uid = ""
        while True:
            pause_s = LOOK_S
            topology = self._topology
            is_offered = topology is not None and isinstance(topology.dra, str)
            said = contents(self._node, topology) if topology is not None and is_offered else ()
            try:
                uid = uid or await self._uid()
                pool = Pool(
                    driver=names.DRA_DRIVER,
                    node=self._node,
                    node_uid=uid,
                    base=f"{self._node}-{names.DRA_DRIVER}",
                )
                await self._publisher.publish(pool, said)
            except (ApiError, Unreachable) as error:
                log.warning("slices not written yet", problem=str(error))
                pause_s = RETRY_S
            await news_within(self._news, pause_s)

    async def _uid(self) -> str:
        content = await self._client.request("GET", f"/api/v1/nodes/{self._node}")
        return msgspec.json.decode(content, type=_Node).metadata.uid

    def _broke(self, kind: str, problem: str) -> None:
        log.warning("watch broke", kind=kind, problem=problem)
