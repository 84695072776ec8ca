"""The node's agent as a process, before a made-up kubelet and a made-up API server."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from fakegpu.deviceplugin.plugin import list_pod_resources
from fakegpu.node.device_assignment import assign
from fakegpu.topology.node_topology import NodeTopology, Utilization, encode_yaml
from tests.http.fakeapi import FakeApi, Json, line, listed, reply
from tests.http.fakegpu.madeupkubelet import MadeUpKubelet
from tests.patience import PATIENCE_S
from tests.unit.fakegpu.nodes import H200, fake, use
from tools.controlplane.ports import LOOPBACK, free_ports

MAPS = "/api/v1/namespaces/gpu-operator/configmaps"
TWO = f"{H200}, gpuCount: 2"


class Watched:
    """A watch that stays open and sends each scripted event at once."""

    def __init__(self) -> None:
        self.news: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(await self.news.get())


class Agent:
    """The process, and its address."""

    def __init__(self, api: FakeApi, kubelet: MadeUpKubelet, folder: Path) -> None:
        self._api = api
        self._folder = folder
        self._kubelet = kubelet
        (self._port,) = free_ports(1)
        self._process: asyncio.subprocess.Process | None = None
        self.watched = Watched()
        api.script(f"GET {MAPS}", reply(listed("1")))
        api.script(f"WATCH {MAPS}", self.watched)
        api.script(f"PATCH {MAPS}/topology-n", reply({}))
        api.script("PATCH /api/v1/nodes/n", reply({}))
        self._version = 1

    def topology(self, found: NodeTopology) -> None:
        """Set the content of the node's ConfigMap."""
        self._version += 1
        meta = {"name": "topology-n", "resourceVersion": str(self._version)}
        body = {"metadata": meta, "data": {"topology.yml": encode_yaml(found)}}
        self.watched.news.put_nowait(line("MODIFIED", body))

    async def start(self, environment: dict[str, str], **node: Any) -> None:
        """Start it; returns when it answers."""
        settings = {
            "kubeletFolder": str(self._kubelet.folder),
            "folder": str(self._folder / "runai"),
            "hostFolder": "/on/host",
            "nvidiaSmi": str(self._folder / "none"),
            "host": LOOPBACK,
            "port": self._port,
            "prometheusUrl": "",
        }
        file = self._folder / "config.yaml"
        head = {"apiVersion": "gpu-scheduler.io/v1", "kind": "FakeGpuConfiguration"}
        file.write_text(yaml.safe_dump({**head, "node": settings | node}))
        words = ("-m", "fakegpu", "node", "--config", str(file), "--kubeconfig", self._kubeconfig())
        environment = {**os.environ, "NODE_NAME": "n", **environment}
        with (self._folder / "log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *words, env=environment, stdout=log, stderr=log
            )
        await self.until("/livez", lambda status, _: status == 200)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end by a signal; its status."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await self._process.wait()

    def log(self) -> str:
        """Its log."""
        return (self._folder / "log").read_text()

    async def ask(self, path: str) -> tuple[int, str]:
        """Status and text; 0 for a closed port."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://{LOOPBACK}:{self._port}{path}") as answer,
            ):
                return answer.status, await answer.text()
        except aiohttp.ClientConnectionError:
            return 0, ""

    async def until(self, path: str, is_right: Callable[[int, str], bool]) -> str:
        """Ask until the answer is right; its text."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_right(*(told := await self.ask(path))):
                assert self._process is not None
                assert self._process.returncode is None, self.log()
                await asyncio.sleep(0.02)
        return told[1]

    def _kubeconfig(self) -> str:
        document: Json = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self._api.url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file = self._folder / "kubeconfig"
        file.write_text(yaml.safe_dump(document))
        return str(file)


@pytest.fixture
async def agent(api: FakeApi, kubelet: MadeUpKubelet, tmp_path: Path) -> AsyncIterator[Agent]:
    running = Agent(api, kubelet, tmp_path)
    yield running
    await running.end()


def utilizations(metrics: str) -> list[int]:
    """Of each series, in their order."""
    return [
        int(found) for found in re.findall(r"^DCGM_FI_DEV_GPU_UTIL\{.*\} (\d+)$", metrics, re.M)
    ]


@pytest.mark.contract("S1-31", "S1-48", "S1-13")
async def test_agent_follows_its_topology_and_redraws_every_interval(
    agent: Agent, kubelet: MadeUpKubelet, api: FakeApi
) -> None:
    """``TOPOLOGY_MAX_EXPORT_INTERVAL``; it does not end while there is no ConfigMap."""
    await agent.start({"TOPOLOGY_MAX_EXPORT_INTERVAL": "50ms"})
    status, text = await agent.ask("/readyz")
    assert (status, "there is no ConfigMap topology-n" in text) == (503, True)
    assert utilizations((await agent.ask("/metrics"))[1]) == []

    agent.topology(fake(TWO))
    assert (await kubelet.next_plugin()).resource_name == "nvidia.com/gpu"
    await agent.until("/readyz", lambda status, _: status == 200)
    await agent.until("/metrics", lambda _, text: utilizations(text) == [0, 0])
    told = [(await api.next("PATCH /api/v1/nodes/n")).json["metadata"]["labels"] for _ in "12"]
    assert told == [{"gpu-scheduler.io/devices": word} for word in (None, "numbered")]

    agent.topology(assign(fake(TWO), [use("p", load=Utilization(10, 90))]))
    first = await agent.until("/metrics", lambda _, text: 'pod="p"' in text)
    await agent.until("/metrics", lambda _, text: utilizations(text) != utilizations(first))
    agent.topology(fake(TWO))
    await agent.until("/metrics", lambda _, text: 'pod="p"' not in text)

    assert await agent.end() == 0
    for line_ in ("Node was Started", "Received signal SIGTERM", "Node was Stopped"):
        assert line_ in agent.log()


@pytest.mark.contract("S1-13")
@pytest.mark.parametrize(
    "number",
    [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT],
    ids=lambda one: one.name,
)
async def test_each_signal_ends_the_agent_and_is_logged(
    agent: Agent, number: signal.Signals
) -> None:
    await agent.start({})

    assert await agent.end(number) == 0
    for line_ in ("Node was Started", f"Received signal {number.name}", "Node was Stopped"):
        assert line_ in agent.log()


@pytest.mark.contract("S1-35")
async def test_without_the_device_plugin_the_agent_only_exports(
    agent: Agent, kubelet: MadeUpKubelet
) -> None:
    """``devicePlugin.enabled: false``."""
    await agent.start({}, devicePlugin=False)
    agent.topology(fake(TWO))
    await agent.until("/metrics", lambda _, text: utilizations(text) == [0, 0])
    await agent.until("/readyz", lambda status, _: status == 200)
    assert kubelet.registered.empty()
    assert [path.name for path in kubelet.plugins.iterdir()] == ["kubelet.sock"]


async def test_without_the_exporter_there_are_no_metrics(
    agent: Agent, kubelet: MadeUpKubelet
) -> None:
    """``statusExporter.enabled: false``; the device plugin works."""
    await agent.start({}, exporter=False)
    agent.topology(fake(TWO))
    await kubelet.next_plugin()
    await agent.until("/readyz", lambda status, _: status == 200)
    assert (await agent.ask("/metrics"))[0] == 404


@pytest.mark.contract("S1-53")
async def test_numa_zones_are_served_like_a_kubelet(
    agent: Agent, api: FakeApi, tmp_path: Path
) -> None:
    """``statusExporter.podResources``: the socket, and a ``cpulist`` for each zone."""
    container = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    meta = {"name": "p", "namespace": "team"}
    pods = listed("1", {"metadata": meta, "spec": {"nodeName": "n", "containers": [container]}})
    api.script("GET /api/v1/pods", reply(pods))
    zones = tmp_path / "zones"
    await agent.start({}, devicePlugin=False, podResourcesFolder=str(zones))

    numa = "numa: {zones: 2, cpuPerZone: 4}"
    agent.topology(assign(fake(f"{TWO}, {numa}"), [use("p")]))
    await agent.until("/metrics", lambda _, text: 'pod="p"' in text)

    nodes = zones / "sys/devices/system/node"
    lists = [(nodes / f"node{zone}" / "cpulist").read_text() for zone in range(2)]
    assert lists == ["0-3\n", "4-7\n"]
    (pod,) = (await list_pod_resources(zones / "pod-resources" / "kubelet.sock")).pod_resources
    (told,) = pod.containers
    assert (pod.name, list(told.cpu_ids)) == ("p", [0, 1, 2])
    assert [len(one.device_ids) for one in told.devices] == [1]


async def test_unreadable_topology_changes_nothing(agent: Agent, kubelet: MadeUpKubelet) -> None:
    await agent.start({"TOPOLOGY_MAX_EXPORT_INTERVAL": "50ms"})
    agent.topology(fake(TWO))
    await kubelet.next_plugin()
    await agent.until("/metrics", lambda _, text: utilizations(text) == [0, 0])
    meta = {"name": "topology-n", "resourceVersion": "90"}
    body = {"metadata": meta, "data": {"topology.yml": "gpus: 7"}}
    agent.watched.news.put_nowait(line("MODIFIED", body))
    await agent.until("/livez", lambda *_: "cannot be read, the last one stays" in agent.log())
    assert utilizations((await agent.ask("/metrics"))[1]) == [0, 0]
