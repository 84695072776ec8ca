"""DRA on one node: publishes a driver's slices and prepares the kubelet's claims."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from msgspec import UNSET

from fakegpu import api_types, names
from fakegpu.api_types import Meta, News
from fakegpu.config import Config
from fakegpu.dra.api_types import SLICES, SliceFacts, resource_slice
from fakegpu.dra.cdi import CdiFolder
from fakegpu.dra.channels import CDI_KIND as CHANNEL_CDI_KIND
from fakegpu.dra.channels import Channels
from fakegpu.dra.checkpoint import Checkpoint
from fakegpu.dra.claim_preparer import ClaimPreparer, Kind
from fakegpu.dra.domains import channel_contents
from fakegpu.dra.driver import Driver
from fakegpu.dra.gpu_devices import CDI_KIND as GPU_CDI_KIND
from fakegpu.dra.pool import Pool
from fakegpu.dra.publisher import Publisher
from fakegpu.dra.store import Slices
from fakegpu.node.resource_slices import contents
from fakegpu.process import news_within
from fakegpu.topology.node_topology import NodeTopology
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.reflector import Reflector

LOOK_S: Final = 30.0
RETRY_S: Final = 2.0

log = structlog.get_logger("dra")


class _Node(msgspec.Struct, frozen=True):
    metadata: Meta


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One driver: its devices, the slices of a topology, and its files.

    ``health_port`` 0: no health service.
    """

    kind: Kind
    slice_contents: Callable[[NodeTopology | None], Sequence[dict[str, Any]]]
    cdi_kind: str
    cdi_folder: str
    checkpoint: str
    health_port: int


def plugin_folder(config: Config, driver: str) -> Path:
    """The directory of a driver's socket and checkpoint."""
    folder = config.dra.plugins_folder or Path(config.node.kubelet_folder) / "plugins"
    return Path(folder) / driver


def gpus(config: Config, node: str, kind: Kind) -> Service:
    """The node's GPUs, from the topology."""

    def slice_contents(topology: NodeTopology | None) -> Sequence[dict[str, Any]]:
        if topology is None or topology.dra is UNSET:
            return ()
        return contents(node, topology)

    return Service(
        kind=kind,
        slice_contents=slice_contents,
        cdi_kind=GPU_CDI_KIND,
        cdi_folder=config.dra.cdi_folder,
        checkpoint="checkpoint.json",
        health_port=config.dra.health_port,
    )


def channels(config: Config, node: str) -> Service:
    """One channel of compute domains on every node of a pool."""
    settings = config.compute_domains
    return Service(
        kind=Channels(node, plugin_folder(config, names.DOMAIN_DRIVER)),
        slice_contents=lambda topology: channel_contents() if topology else (),
        cdi_kind=CHANNEL_CDI_KIND,
        cdi_folder=settings.cdi_folder,
        checkpoint="computedomain-checkpoint.json",
        health_port=settings.health_port,
    )


class DraKubeletPlugin:
    """The tasks of one driver in a node's agent."""

    def __init__(
        self, config: Config, client: Client, node: str, service: Service, manager: str
    ) -> None:
        self._client = client
        self._node = node
        self._service = service
        self._driver_name = service.kind.driver
        self._topology: NodeTopology | None = None
        self._has_topology = asyncio.Event()
        self._slices = Slices()
        self._publisher = Publisher(client, self._slices, manager)
        self._news = asyncio.Event()
        folder = plugin_folder(config, self._driver_name)
        kubelet = Path(config.node.kubelet_folder)
        registrar = Path(config.dra.registrar_folder or kubelet / "plugins_registry")
        cdi = CdiFolder(Path(service.cdi_folder), service.cdi_kind)
        checkpoint = Checkpoint(folder / service.checkpoint)
        self._preparer = ClaimPreparer(client, node, service.kind, cdi, checkpoint)
        health = f"{config.node.host}:{service.health_port}" if service.health_port else ""
        self._driver = Driver(self._driver_name, folder, registrar, self._preparer, health)

    def update(self, topology: NodeTopology | None) -> None:
        """Replace the topology; None if the node has no pool."""
        self._topology = topology
        self._has_topology.set()
        self._news.set()

    def not_ready(self) -> str | None:
        """Why the kubelet cannot prepare claims; None if it can."""
        if self._driver.is_registered:
            return None
        return f"the kubelet has not registered the DRA driver {self._driver_name}"

    def stages(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The tasks by name."""
        self._preparer.begin()
        yield f"claims of {self._driver_name}", self._driver.run()
        yield f"slices of {self._driver_name}", self._watch()

    async def _watch(self) -> None:
        ours = f"spec.driver={self._driver_name},spec.nodeName={self._node}"
        source = api_types.source("slices", SLICES, resource_slice, lambda news: news, ours)
        reflector = Reflector(
            self._client, source, self._fold, self._broke, random.Random(), busy=self._busy
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(), name="reflector")
            await reflector.is_synced.wait()
            await self._has_topology.wait()
            await self._publish()

    def _fold(self, news: News[SliceFacts]) -> None:
        if self._slices.fold(news):
            self._news.set()

    async def _publish(self) -> None:
        """Keep the slices equal to the topology; a kubelet deletes them when the plugin is
        missing.
        """
        uid = ""
        while True:
            pause_s = LOOK_S
            try:
                uid = uid or await self._uid()
                pool = Pool(
                    driver=self._driver_name,
                    node=self._node,
                    node_uid=uid,
                    base=f"{self._node}-{self._driver_name}",
                )
                await self._publisher.publish(pool, self._service.slice_contents(self._topology))
            except (ApiError, Unreachable) as error:
                log.warning("slices not written yet", problem=str(error))
                pause_s = RETRY_S
            await news_within(self._news, pause_s)

    async def _uid(self) -> str:
        content = await self._client.request("GET", f"/api/v1/nodes/{self._node}")
        return msgspec.json.decode(content, type=_Node).metadata.uid

    def _broke(self, kind: str, problem: str) -> None:
        log.warning("watch failed", kind=kind, problem=problem)

    def _busy(self, kind: str, problem: str) -> None:
        log.debug("watch refused at start", kind=kind, problem=problem)
