"""The device plugin against a fake kubelet: registration, device lists, allocations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest

from fakegpu.agent import pod_resources_watcher
from fakegpu.agent.device_allocator import DeviceAllocator
from fakegpu.agent.host_dir import HostDir
from fakegpu.deviceplugin.plugin_manager import PluginManager
from fakegpu.kubelet.deviceplugin_pb2 import Mount
from fakegpu.kubelet.podresources_pb2 import (
    ContainerDevices,
    ContainerResources,
    ListPodResourcesResponse,
    PodResources,
)
from fakegpu.node.advertised_devices import units
from fakegpu.topology.node_topology import Failure, NodeTopology
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, Json, failure, listed, reply
from tests.http.fakegpu.madeupkubelet import MadeUpKubelet
from tests.patience import PATIENCE_S
from tests.unit.fakegpu.nodes import GPU, H200, fake, slicing

PODS = "GET /api/v1/pods"
FOUR = f"{H200}, gpuCount: 4"
MAIN = "fake-nvidia-gpu.sock"


class Node:
    """A node's plugins, with the agent's allocator."""

    def __init__(self, client: Client, folder: Path, kubelet: MadeUpKubelet) -> None:
        self.topology: NodeTopology | None = None
        program = folder / "nvidia-smi"
        program.write_bytes(b"#!")
        self.folder = HostDir(folder / "runai", Path("/on/host"))
        assert self.folder.install(program)
        self.allocated = 0
        allocator = DeviceAllocator(
            client,
            "n",
            "runai-reservation",
            self.folder,
            kubelet.folder / pod_resources_watcher.SOCKET,
            lambda: self.topology,
            self._on_allocated,
        )
        self.plugins = PluginManager(kubelet.plugins, allocator)

    def update(self, topology: NodeTopology) -> None:
        """The node's topology is this now."""
        self.topology = topology
        self.plugins.update(units(topology))

    def _on_allocated(self) -> None:
        self.allocated += 1


@pytest.fixture
async def node(
    client: Client, api: FakeApi, tmp_path: Path, kubelet: MadeUpKubelet
) -> AsyncIterator[Node]:
    api.script(PODS, reply(listed("1")))
    running = Node(client, tmp_path, kubelet)
    task = asyncio.create_task(running.plugins.run())
    yield running
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def pod(name: str, gpus: int, chosen: str = "") -> Json:
    """A pending pod on the node."""
    limits = {"limits": {GPU: str(gpus)}}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "annotations": {"gpu-scheduler.io/devices": chosen} if chosen else {},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": limits}]},
        "status": {"phase": "Pending"},
    }


def admitted(**ids: tuple[str, ...]) -> ListPodResourcesResponse:
    """The kubelet's answer: pods, and the devices that their containers hold."""

    def container(held: tuple[str, ...]) -> ContainerResources:
        devices = [ContainerDevices(resource_name=GPU, device_ids=held)] if held else []
        return ContainerResources(name="c", devices=devices)

    return ListPodResourcesResponse(
        pod_resources=[
            PodResources(name=name, namespace="team", containers=[container(held)])
            for name, held in ids.items()
        ]
    )


def read_only(container_path: str, host_path: str) -> Mount:
    return Mount(container_path=container_path, host_path=host_path, read_only=True)


async def healths(kubelet: MadeUpKubelet, wanted: dict[str, str]) -> None:
    """Wait until the plugin has told just this."""
    async for told in kubelet.lists(MAIN):
        if told == wanted:
            return
    raise AssertionError(f"never told: {wanted}")


@pytest.mark.contract("S1-32")
async def test_each_resource_registers_once_on_its_own_socket(
    node: Node, kubelet: MadeUpKubelet
) -> None:
    """v1beta1, ``fake-nvidia-gpu.sock``, and for others the resource's name; the ids are those of
    the topology.
    """
    found = fake(FOUR + ", resources: [{rdma/hca: 2}, {nvidia.com/mig-1g.10gb: 1}]")
    node.update(found)
    registered = [await kubelet.next_plugin() for _ in range(3)]
    assert {one.resource_name: one.endpoint for one in registered} == {
        GPU: "fake-nvidia-gpu.sock",
        "rdma/hca": "rdma_hca.sock",
        "nvidia.com/mig-1g.10gb": "nvidia_com_mig_1g_10gb.sock",
    }
    assert {one.version for one in registered} == {"v1beta1"}
    assert (await kubelet.options(MAIN)).get_preferred_allocation_available
    await healths(kubelet, dict.fromkeys((gpu.id for gpu in found.gpus), "Healthy"))
    assert kubelet.registered.empty()


@pytest.mark.contract("S1-B12")
async def test_restarted_kubelet_gets_a_new_registration(
    node: Node, kubelet: MadeUpKubelet
) -> None:
    """It has removed every socket; and one that removes ours alone is noticed too."""
    node.update(fake(FOUR))
    await kubelet.next_plugin()

    await kubelet.stop()
    await kubelet.start()
    assert (await kubelet.next_plugin()).resource_name == GPU

    (kubelet.plugins / MAIN).unlink()
    assert (await kubelet.next_plugin()).resource_name == GPU
    assert (await kubelet.options(MAIN)).get_preferred_allocation_available


async def test_resource_without_gpus_is_not_registered(node: Node, kubelet: MadeUpKubelet) -> None:
    """Every GPU was cut: the running kubelet gets an empty list, a restarted one nothing."""
    node.update(fake(FOUR))
    await kubelet.next_plugin()

    node.update(fake(f"{FOUR}, mig: {{mig-devices: {{1g.10gb: 7}}}}"))
    assert (await kubelet.next_plugin()).resource_name == "nvidia.com/mig-1g.10gb"
    await healths(kubelet, {})

    await kubelet.stop()
    await kubelet.start()
    assert (await kubelet.next_plugin()).resource_name == "nvidia.com/mig-1g.10gb"
    node.update(fake(FOUR))
    assert (await kubelet.next_plugin()).resource_name == GPU


@pytest.mark.contract("S1-B12")
async def test_health_changes_both_ways_and_edits_arrive_on_the_open_stream(
    node: Node, kubelet: MadeUpKubelet
) -> None:
    """Failed: unhealthy. Off the bus: not there. Recovered: healthy. A smaller pool: fewer."""
    sound, broken = fake(FOUR), fake(FOUR, failures={1: Failure(48), 3: Failure(79, off_bus=True)})
    ids = [gpu.id for gpu in sound.gpus]
    node.update(sound)
    await kubelet.next_plugin()
    told = kubelet.lists(MAIN)
    assert await anext(told) == dict.fromkeys(ids, "Healthy")
    node.update(broken)
    assert await anext(told) == {ids[0]: "Healthy", ids[1]: "Unhealthy", ids[2]: "Healthy"}
    node.update(sound)
    assert await anext(told) == dict.fromkeys(ids, "Healthy")
    node.update(fake(f"{H200}, gpuCount: 1"))
    assert await anext(told) == {ids[0]: "Healthy"}
    await told.aclose()


@pytest.mark.contract("S1-33", "S1-B20")
async def test_container_gets_the_seed_env_and_read_only_mounts(
    node: Node, kubelet: MadeUpKubelet
) -> None:
    found = fake(FOUR)
    first, second = (gpu.id for gpu in found.gpus[:2])
    node.update(found)
    await kubelet.next_plugin()

    given = await kubelet.allocate(MAIN, first, second)

    assert given.envs["MOCK_NVIDIA_VISIBLE_DEVICES"] == f"{first},{second}"
    assert given.envs["NVIDIA_VISIBLE_DEVICES"] == f"{first},{second}"
    assert given.envs["NODE_NAME"] == "n"
    assert list(given.mounts) == [
        read_only(f"/run/fake-gpu/devices/{first}", f"/on/host/devices/{first}"),
        read_only(f"/run/fake-gpu/devices/{second}", f"/on/host/devices/{second}"),
        read_only("/bin/nvidia-smi", "/on/host/bin/nvidia-smi"),
    ]
    assert node.allocated == 1


async def test_non_gpu_devices_add_no_env_or_mounts(node: Node, kubelet: MadeUpKubelet) -> None:
    node.update(fake(FOUR + ", resources: [{rdma/hca: 2}]"))
    for _ in range(2):
        await kubelet.next_plugin()
    given = await kubelet.allocate("rdma_hca.sock", "rdma/hca-0")
    assert (dict(given.envs), list(given.mounts)) == ({}, [])


@pytest.mark.contract("S4-3")
async def test_two_units_of_a_shared_gpu_are_refused_where_configured(
    node: Node, kubelet: MadeUpKubelet
) -> None:
    """``failRequestsGreaterThanOne``; the text becomes the pod's message."""
    found = fake(FOUR, sharing=slicing(2, more="failRequestsGreaterThanOne: true, "))
    node.update(found)
    await kubelet.next_plugin()
    one, two = (unit.id for unit in units(found)[GPU][:2])
    with pytest.raises(grpc.aio.AioRpcError, match="maximum request size for shared") as refused:
        await kubelet.allocate(MAIN, one, two)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (await kubelet.allocate(MAIN, one)).envs["MOCK_NVIDIA_VISIBLE_DEVICES"] == one[:-3]


async def test_starting_pod_gets_its_chosen_devices(
    node: Node, kubelet: MadeUpKubelet, api: FakeApi
) -> None:
    """Of two pods of one size the kubelet has taken in the second: its choice is preferred."""
    found = fake(FOUR)
    ids = [gpu.id for gpu in found.gpus]
    api.script(PODS, reply(listed("1", pod("a", 1, "gpu:0"), pod("b", 1, "gpu:2"))))
    kubelet.pods = admitted(b=())
    node.update(found)
    await kubelet.next_plugin()
    assert await kubelet.prefer(MAIN, ids, 1) == (ids[2],)
    kubelet.pods = admitted(a=(), b=(ids[2],))
    assert await kubelet.prefer(MAIN, (ids[0], ids[1], ids[3]), 1) == (ids[0],)


async def test_without_the_api_server_devices_are_given_by_index(
    node: Node, kubelet: MadeUpKubelet, api: FakeApi
) -> None:
    found = fake(FOUR)
    ids = tuple(gpu.id for gpu in found.gpus)
    api.script(PODS, failure(500))
    node.update(found)
    await kubelet.next_plugin()
    assert await kubelet.prefer(MAIN, ids[1:], 2) == ids[1:3]


async def test_device_holders_are_written_once_per_change(kubelet: MadeUpKubelet) -> None:
    """Resources that the node does not have are ignored."""
    written: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    recorded = "{}"

    async def write(key: str, text: str) -> None:
        nonlocal recorded
        recorded = text
        written.put_nowait((key, text))

    kubelet.pods = admitted(a=("GPU-2", "GPU-1"), b=())
    follower = pod_resources_watcher.PodResourcesWatcher(
        kubelet.folder, lambda: (GPU,), lambda: recorded, write
    )
    task = asyncio.create_task(follower.run())
    async with asyncio.timeout(PATIENCE_S):
        assert await written.get() == ("assigned.json", '{"team/a/c":["GPU-1","GPU-2"]}')
        kubelet.pods = admitted(b=("GPU-1",))
        follower.poll_now()
        assert await written.get() == ("assigned.json", '{"team/b/c":["GPU-1"]}')
    assert written.empty()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
