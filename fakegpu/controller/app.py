"""Wires the controller: watches, cluster cache, reconciler, election and the topology server."""

from __future__ import annotations

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import structlog
from aiohttp import web

from fakegpu import api_types, names, pod_decode, server
from fakegpu.config import Config
from fakegpu.controller import cluster_cache, node_events
from fakegpu.controller.apply import Writer
from fakegpu.controller.kwok_metrics import KwokExporter
from fakegpu.controller.plan_types import Settings
from fakegpu.controller.reconcile import Reconciler
from fakegpu.dra import api_types as dra
from fakegpu.dra.compute_domain_controller import ComputeDomainController
from fakegpu.dra.kwok import KwokSlices
from fakegpu.dra.publisher import Publisher
from fakegpu.exporter.prometheus_query import PrometheusQuery
from fakegpu.process import serving, stopped_by_signals
from scheduler.controllers.leadership.elector import LeaderElector
from scheduler.model.crd import mig_partition_codec
from scheduler.supervisor import TaskSupervisor
from scheduler.watch.client import Client
from scheduler.watch.reflector import Reflector, WatchSource

log = structlog.get_logger("fakegpu")

PROGRAM = "Controller"
PODGROUPS = "/apis/scheduling.run.ai/v2alpha2/podgroups"


def _of_dra() -> list[WatchSource[Any]]:
    slices, claims = dra.our_slice, dra.claim(names.DRA_DRIVER)
    return [
        api_types.source(
            "slices", dra.SLICES, slices, node_events.ResourceSliceEvents, is_optional=True
        ),
        api_types.source(
            "claims", dra.CLAIMS, claims, node_events.ResourceClaimEvents, is_optional=True
        ),
    ]


def utc_now() -> datetime:
    """The wall clock, for timestamps."""
    return datetime.now(UTC)


class App:
    """One controller process."""

    def __init__(self, config: Config, kubeconfig: str | None) -> None:
        self._config = config
        self._kubeconfig = kubeconfig
        self._rng = random.Random()
        self._world = cluster_cache.ClusterCache(config.topology.name)
        self._leads = False
        self._on_lead: Callable[[bool], None] = lambda leads: None
        self._reflectors: list[Reflector[Any]] = []
        self._stages = TaskSupervisor()

    async def run(self) -> int:
        """Run until a signal; returns 1 if a task ended by itself."""
        client = await Client.connect(self._kubeconfig, names.OPERATOR)
        try:
            return await self._serve(client, stopped_by_signals())
        finally:
            await client.close()

    async def _serve(self, client: Client, stop: asyncio.Event) -> int:
        config, host = self._config, socket.gethostname()
        elector = self._elector(client, f"{host}_{uuid.uuid4()}")
        writer = Writer(
            client,
            config.topology.namespace,
            config.mig.partitions_namespace,
            f"{names.OPERATOR}-{host}",
            utc_now,
        )
        reconciler = Reconciler(
            self._world,
            writer,
            KwokSlices(
                Publisher(client, self._world.slices, names.OPERATOR),
                has_domains=config.compute_domains.enabled,
            ),
            self._settings(),
            elector.leads,
            time.monotonic,
            time.time,
            self._rng,
            config.workers,
        )
        self._stages.start("reconciler", reconciler.run())
        election = self._stages.start("election", self._elect(elector, reconciler))
        self._follow(client, self._sources(), reconciler.emit)
        self._keep_domains(client, elector)
        self._stages.start("sync", self._synced(reconciler))
        async with serving(self._page(reconciler), config.server.host, config.server.port):
            log.info(f"{PROGRAM} was Started")
            failed = await self._stages.until(stop)
        elector.stop_leading()
        election.cancel()
        await asyncio.gather(election, return_exceptions=True)
        await elector.release()
        await self._stages.end()
        log.info(f"{PROGRAM} was Stopped")
        return 1 if failed else 0

    def _keep_domains(self, client: Client, elector: LeaderElector) -> None:
        """Run the compute domain controller, which does not depend on node topologies."""
        if not self._config.compute_domains.enabled:
            return
        keeper = ComputeDomainController(client, elector.leads)
        self._stages.start("domains", keeper.run())
        self._follow(client, keeper.sources(), keeper.emit)

    def _follow(
        self, client: Client, sources: Iterable[WatchSource[Any]], emit: Callable[[Any], None]
    ) -> None:
        for source in sources:
            reflector = Reflector(client, source, emit, self._broke, self._rng, busy=self._busy)
            self._reflectors.append(reflector)
            self._stages.start(f"watch {source.kind}", reflector.run())

    def _page(self, reconciler: Reconciler) -> web.Application:
        """The controller's pages: topologies, health, and the metrics of KWOK nodes."""
        settings = self._config.node
        answers = server.Answers(lambda: self._world.topology, self._node_text, self._not_ready)
        page = server.application(self._config.server, answers)
        exporter = KwokExporter(
            reconciler.kwok_topologies,
            PrometheusQuery(settings.prometheus_url),
            time.monotonic,
            self._rng,
            settings.export_interval_s,
        )
        page.router.add_get("/metrics", exporter.answer)
        return page

    def _settings(self) -> Settings:
        config = self._config
        return Settings(
            namespace=config.topology.namespace,
            map_prefix=f"{config.topology.name}-",
            latency_s=config.mig.latency_s,
            failure_rate=config.mig.failure_rate,
            labels=config.node_labels.enabled,
            numbered=config.node_labels.numbered,
            mig_partitions=bool(config.mig.partitions_namespace),
            zones=config.node_resource_topology.enabled,
            dra_on_kubelets=None if config.dra.kubelet == "none" else config.dra.kubelet,
            dra_on_kwok=None if config.dra.kwok == "none" else config.dra.kwok,
            in_parts=config.dra.partitionable,
        )

    def _sources(self) -> list[WatchSource[Any]]:
        config = self._config
        maps = f"/api/v1/namespaces/{config.topology.namespace}/configmaps"
        pod = pod_decode.pod(config.reservation_namespace)
        # Pods without a node hold nothing, and terminated pods leave the selector.
        placed = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        found = [
            api_types.source("nodes", "/api/v1/nodes", api_types.node, node_events.NodeEvents),
            api_types.source("configmaps", maps, api_types.config_map, node_events.ConfigMapEvents),
            api_types.source("pods", "/api/v1/pods", pod, node_events.PodEvents, placed),
            api_types.source(
                "podgroups",
                PODGROUPS,
                pod_decode.group,
                node_events.PodGroupEvents,
                is_optional=True,
            ),
        ]
        plugin = config.device_plugin_config
        if plugin.name:
            path = f"/api/v1/namespaces/{plugin.namespace}/configmaps"
            one = f"metadata.name={plugin.name}"
            found.append(
                api_types.source(
                    "plugin", path, api_types.config_map, node_events.PluginConfigEvents, one
                )
            )
        if config.mig.partitions_namespace:
            path = mig_partition_codec.path(config.mig.partitions_namespace)
            found.append(
                api_types.source(
                    "cuts",
                    path,
                    api_types.mig_partitions,
                    node_events.PartitionEvents,
                    is_optional=True,
                )
            )
        if config.dra.is_on or config.compute_domains.enabled:
            found += _of_dra()
        return found

    def _elector(self, client: Client, identity: str) -> LeaderElector:
        election = self._config.leader_election
        return LeaderElector(
            client,
            name=election.resource_name,
            namespace=self._config.topology.namespace,
            identity=identity,
            timings=election.timings(),
            clock=time.monotonic,
            wall=utc_now,
            rng=self._rng,
            on_change=lambda leads: self._on_lead(leads),
            enabled=election.leader_elect,
        )

    async def _elect(self, elector: LeaderElector, reconciler: Reconciler) -> None:
        def changed(leads: bool) -> None:
            if leads != self._leads:
                self._leads = leads
                log.info("leading" if leads else "standing by")
                reconciler.led()

        self._on_lead = changed
        await elector.run()

    async def _synced(self, reconciler: Reconciler) -> None:
        for reflector in self._reflectors:
            await reflector.is_synced.wait()
        reconciler.synced()
        log.info("caches synced")
        await asyncio.Event().wait()

    def _node_text(self, node: str) -> str | None:
        record = self._world.map_of(node)
        return record.data.get(names.TOPOLOGY_KEY) if record else None

    def _not_ready(self) -> str | None:
        waiting = [one for one in self._reflectors if not one.is_synced.is_set()]
        return f"{len(waiting)} kinds are not listed yet" if waiting else None

    def _broke(self, kind: str, problem: str) -> None:
        log.warning("watch failed", kind=kind, problem=problem)

    def _busy(self, kind: str, problem: str) -> None:
        log.debug("watch refused at start", kind=kind, problem=problem)
