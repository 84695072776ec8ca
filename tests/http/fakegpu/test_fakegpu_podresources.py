"""The pod resources socket of fake nodes, for tools that read NUMA zones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest

from fakegpu.agent.pod_requests import read
from fakegpu.deviceplugin.plugin import list_pod_resources
from fakegpu.deviceplugin.podresources import SOCKET, PodResourcesServer
from fakegpu.kubelet.podresources_pb2 import ContainerResources, NUMANode, TopologyInfo
from fakegpu.node.device_assignment import assign
from fakegpu.node.numa_zones import ContainerKey, Request
from fakegpu.topology.node_topology import NodeTopology
from tests.unit.fakegpu.nodes import GPU, fake, use

FOUR = "gpus: [{type: t4, count: 4}], numa: {zones: 2, gpusPerZone: [3, 1], cpuPerZone: 8}"
NEAR = [TopologyInfo(nodes=[NUMANode(ID=zone)]) for zone in range(2)]
PROCESSORS = Path("sys/devices/system/node")


class Node:
    """A node's topology and what its pods ask for, as they are now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.topology: NodeTopology | None = None
        self.asked: dict[ContainerKey, Request] = {}
        self.server = PodResourcesServer(folder, lambda: self.topology, self._requests)

    async def _requests(self) -> Mapping[ContainerKey, Request]:
        return self.asked

    async def listed(self) -> dict[str, ContainerResources]:
        """The answer of ``List``: pods of one container each."""
        answer = await list_pod_resources(self.folder / SOCKET)
        return {pod.name: one for pod in answer.pod_resources for one in pod.containers}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    found = Node(tmp_path)
    await found.server.start()
    yield found
    await found.server.stop()
    assert not (tmp_path / SOCKET).exists()


@pytest.mark.contract("S1-53")
async def test_list_reports_devices_cpus_and_memory_by_zone(node: Node) -> None:
    """Charged by the devices in each zone, the larger remainder first."""
    pods = [use("a", gpus=1, created="1"), use("b", gpus=3, created="2")]
    node.topology = assign(fake(FOUR), pods)
    node.asked = {("team", "a", "c"): Request(2, 100), ("team", "b", "c"): Request(5, 301)}

    found = await node.listed()

    (only,) = found["a"].devices
    assert (only.resource_name, only.topology) == (GPU, NEAR[0])
    assert list(found["a"].cpu_ids) == [0, 1]
    assert [one.size for one in found["a"].memory] == [100]
    near, far = found["b"].devices
    assert [*near.device_ids] == [gpu.id for gpu in node.topology.gpus[1:3]]
    assert [*far.device_ids] == [node.topology.gpus[3].id]
    assert [near.topology, far.topology] == NEAR
    assert list(found["b"].cpu_ids) == [2, 3, 4, 8, 9]
    assert [(one.size, one.topology) for one in found["b"].memory] == [
        (201, NEAR[0]),
        (100, NEAR[1]),
    ]


@pytest.mark.contract("S1-B31")
async def test_first_answer_is_complete_and_later_ones_are_current(node: Node) -> None:
    """Nothing is subscribed to, so there is nothing that could come too late."""
    assert await node.listed() == {}
    for names in (["a"], ["a", "b"], ["b"]):
        pods = [use(name, created=name) for name in names]
        node.topology = assign(fake(FOUR), pods, before=node.topology)
        answers = await asyncio.gather(*(node.listed() for _ in range(5)))
        assert all(sorted(answer) == names for answer in answers)


@pytest.mark.contract("S1-53")
def test_each_zone_has_its_cpulist_file_which_goes_with_it(tmp_path: Path) -> None:
    """``sys/devices/system/node/node<z>/cpulist``, as below ``/sys`` of a real machine."""
    node = Node(tmp_path)
    node.topology = fake(FOUR)
    node.server.show()
    assert (tmp_path / PROCESSORS / "node1" / "cpulist").read_text() == "8-15\n"

    node.topology = fake(FOUR.replace("zones: 2, gpusPerZone: [3, 1]", "zones: 1"))
    node.server.show()

    assert (tmp_path / PROCESSORS / "node0" / "cpulist").read_text() == "0-7\n"
    assert not (tmp_path / PROCESSORS / "node1" / "cpulist").exists()


def test_what_containers_ask_for_is_read_from_a_list_of_pods() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}
    meta = {"name": "p", "namespace": "team"}
    pods = [{"metadata": meta, "spec": {"containers": [container, {"name": "plain"}]}}]

    assert read(msgspec.json.encode({"items": pods})) == {
        ("team", "p", "c"): Request(2, 1 << 30),
        ("team", "p", "plain"): Request(),
    }
