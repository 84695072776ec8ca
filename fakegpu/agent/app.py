"""Wires the agent: reads the node's topology; runs device plugins, telemetry, metrics and
labels.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from fakegpu import api_types, names
from fakegpu.agent import pod_requests, pod_resources_watcher
from fakegpu.agent.device_allocator import DeviceAllocator
from fakegpu.agent.host_dir import IN_CONTAINER, SMI_IN_CONTAINER, HostDir
from fakegpu.api_types import Listed, MapFacts, News
from fakegpu.config import Config
from fakegpu.deviceplugin.plugin_manager import PluginManager
from fakegpu.deviceplugin.podresources import PodResourcesServer
from fakegpu.dra.gpu_devices import Gpus
from fakegpu.dra.kubelet_plugin import DraKubeletPlugin, channels, gpus
from fakegpu.exporter import server
from fakegpu.exporter.metrics import Exported, host_name
from fakegpu.exporter.prometheus_query import PrometheusQuery, queried_pods
from fakegpu.node.advertised_devices import Supply, units
from fakegpu.node.node_labels import can_be_numbered
from fakegpu.node.runai_proc_files import pod_files
from fakegpu.node.telemetry import Reading, read_all
from fakegpu.process import news_within, serving, stopped_by_signals
from fakegpu.topology.node_topology import NodeTopology, TopologyError, decode_yaml
from scheduler.model.well_known import NUMBERED
from scheduler.supervisor import TaskSupervisor
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable
from scheduler.watch.reflector import Reflector

PROGRAM: Final = "Node"
MANAGER: Final = f"{names.OPERATOR}-node"
RETRY_S: Final = 2.0

log = structlog.get_logger("fakegpu")


class App:
    """One agent process."""

    def __init__(self, config: Config, kubeconfig: str | None, node: str) -> None:
        self._config = config
        self._kubeconfig = kubeconfig
        self._node = node
        self._rng = random.Random()
        self._map_name = f"{config.topology.name}-{node}"
        self._record: MapFacts | None = None
        self._text: str | None = None
        self._topology: NodeTopology | None = None
        self._supply: Supply = {}
        self._readings: tuple[Reading, ...] = ()
        self._news = asyncio.Event()
        self._stages = TaskSupervisor()
        self._folder = HostDir(Path(config.node.folder), Path(config.node.host_folder))
        self._asking = PrometheusQuery(config.node.prometheus_url)
        self._is_index_assigned: bool | None = None

    async def run(self) -> int:
        """Run until a signal; returns 1 if a task ended by itself."""
        self._client = await Client.connect(self._kubeconfig, MANAGER)
        try:
            return await self._serve(stopped_by_signals())
        finally:
            await self._client.close()

    async def _serve(self, stop: asyncio.Event) -> int:
        settings = self._config.node
        if not self._folder.install(Path(settings.nvidia_smi)):
            log.warning(
                "containers get no nvidia-smi: the program is missing", path=settings.nvidia_smi
            )
        kubelet = Path(settings.kubelet_folder)
        self._assignments = pod_resources_watcher.PodResourcesWatcher(
            kubelet, self._resources, self._assigned, self._write
        )
        allocator = DeviceAllocator(
            self._client,
            self._node,
            self._config.reservation_namespace,
            self._folder,
            kubelet / pod_resources_watcher.SOCKET,
            lambda: self._topology,
            self._assignments.poll_now,
        )
        self._pod_resources = self._pod_resources_server(settings.pod_resources_folder)
        self._plugins = PluginManager(kubelet / "device-plugins", allocator)
        if settings.device_plugin:
            self._stages.start("plugins", self._plugins.run())
            self._stages.start("assigned", self._assignments.run())
        if self._pod_resources is not None:
            self._stages.start("pod resources", self._pod_resources.run())
        self._dra = self._start_dra()
        self._stages.start("label", self._label())
        self._stages.start("readings", self._read())
        self._stages.start("watch", self._watch())
        page = server.application(self._exported if settings.exporter else None, self._not_ready)
        async with serving(page, settings.host, settings.port):
            log.info(f"{PROGRAM} was Started")
            failed = await self._stages.until(stop)
        await self._stages.end()
        log.info(f"{PROGRAM} was Stopped")
        return 1 if failed else 0

    def _start_dra(self) -> list[DraKubeletPlugin]:
        config, node, found = self._config, self._node, []
        if config.dra.kubelet != "none":
            kind = Gpus(node, lambda: self._topology, self._folder, IN_CONTAINER, SMI_IN_CONTAINER)
            found.append(gpus(config, node, kind))
        if config.compute_domains.enabled:
            found.append(channels(config, node))
        drivers = [DraKubeletPlugin(config, self._client, node, one, MANAGER) for one in found]
        for driver in drivers:
            for name, stage in driver.stages():
                self._stages.start(name, stage)
        return drivers

    def _pod_resources_server(self, folder: str) -> PodResourcesServer | None:
        if not folder:
            return None
        client, node = self._client, self._node
        return PodResourcesServer(
            Path(folder), lambda: self._topology, lambda: pod_requests.fetch_requests(client, node)
        )

    # --- the node's topology ------------------------------------------------------------------

    async def _watch(self) -> None:
        namespace = self._config.topology.namespace
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        one = f"metadata.name={self._map_name}"
        source = api_types.source("topology", path, api_types.config_map, lambda news: news, one)
        await Reflector(
            self._client, source, self._fold, self._broke, self._rng, busy=self._busy
        ).run()

    def _fold(self, news: News[MapFacts]) -> None:
        if isinstance(news, Listed):
            self._record = news.values.get(self._map_name)
        else:
            self._record = news.value
        text = self._record.data.get(names.TOPOLOGY_KEY, "") if self._record else ""
        if text == self._text:
            return  # only the assignments changed
        self._text = text
        try:
            self._topology = decode_yaml(text) if text else None
        except TopologyError as error:
            log.error("the node's topology cannot be read, the last one stays", problem=str(error))
            return
        self._supply = units(self._topology) if self._topology else {}
        self._plugins.update(self._supply)
        for driver in self._dra:
            driver.update(self._topology)
        self._news.set()

    def _resources(self) -> Iterable[str]:
        return self._supply

    def _assigned(self) -> str | None:
        """The recorded assignments; None if the ConfigMap is missing."""
        return self._record.data.get(names.ASSIGNED_KEY, "{}") if self._record else None

    async def _write(self, key: str, text: str) -> None:
        path = f"/api/v1/namespaces/{self._config.topology.namespace}/configmaps/{self._map_name}"
        await self._patch(path, {"data": {key: text}})

    async def _patch(self, path: str, body: dict[str, Any]) -> None:
        await self._client.request(
            "PATCH",
            path,
            msgspec.json.encode(body),
            params={"fieldManager": MANAGER},
            content_type=MERGE_PATCH,
        )

    # --- output -------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Compute the telemetry after each change, and every few seconds."""
        while True:
            topology = self._topology
            if topology is not None:
                await self._asking.ask(queried_pods(topology))
            self._readings = (
                read_all(topology, self._rng.randint, self._asking.of) if topology else ()
            )
            self._folder.write(self._readings)
            self._folder.write_pods(self._pod_files())
            if self._pod_resources is not None:
                self._pod_resources.show()
            await news_within(self._news, self._config.node.export_interval_s)

    def _pod_files(self) -> dict[str, bytes]:
        topology, reservations = self._topology, self._config.reservation_namespace
        if topology is None:
            return {}
        return pod_files(topology, reservations, self._rng.randint, self._asking.of)

    async def _label(self) -> None:
        """Label the node as index-assigned, or remove the label."""
        while True:
            topology = self._topology
            wanted = bool(
                self._config.node_labels.numbered
                and topology is not None
                and topology.gpus
                and can_be_numbered(topology)
                and self._plugins.is_registered
            )
            is_settled = (
                topology is None
                or self._plugins.is_registered
                or not self._config.node.device_plugin
            )
            if wanted != self._is_index_assigned and is_settled:
                try:
                    labels = {NUMBERED: "numbered" if wanted else None}
                    await self._patch(
                        f"/api/v1/nodes/{self._node}", {"metadata": {"labels": labels}}
                    )
                    self._is_index_assigned = wanted
                except (ApiError, Unreachable) as error:
                    log.warning("the node is not labelled", problem=str(error))
            await asyncio.sleep(RETRY_S)

    def _exported(self) -> list[Exported]:
        return [Exported(host_name(self._node), one) for one in self._readings]

    def _not_ready(self) -> str | None:
        if self._topology is None:
            return f"there is no ConfigMap {self._map_name} with the node's topology yet"
        if self._config.node.device_plugin and not self._plugins.is_registered:
            return "not registered with the kubelet"
        return next(filter(None, (driver.not_ready() for driver in self._dra)), None)

    def _broke(self, kind: str, problem: str) -> None:
        log.warning("watch failed", kind=kind, problem=problem)

    def _busy(self, kind: str, problem: str) -> None:
        log.debug("watch refused at start", kind=kind, problem=problem)
