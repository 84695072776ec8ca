"""The DRA driver before a made-up kubelet: real sockets, a scripted API server, real files."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from fakegpu.agent.host_dir import IN_CONTAINER, SMI_IN_CONTAINER, HostDir
from fakegpu.dra.cdi import CdiFolder
from fakegpu.dra.checkpoint import Checkpoint
from fakegpu.dra.claim_preparer import ClaimPreparer
from fakegpu.dra.driver import Driver
from fakegpu.dra.gpu_devices import CDI_KIND, Gpus
from fakegpu.kubelet import DRA_PLUGIN, HEALTH, PLUGIN_REGISTRATION
from fakegpu.kubelet.dra_pb2 import (
    Claim,
    Device,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from fakegpu.kubelet.health_pb2 import HealthCheckRequest, HealthCheckResponse
from fakegpu.kubelet.pluginregistration_pb2 import InfoRequest, PluginInfo
from fakegpu.rpc import call
from fakegpu.topology.node_topology import Failure, NodeTopology
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, failure, reply
from tests.patience import PATIENCE_S
from tests.unit.fakegpu.nodes import fake

Json = dict[str, Any]
DRIVER = "gpu.nvidia.com"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"


def device(index: int = 0) -> str:
    return f"gpu-{index}"


def device_id(index: int = 0) -> str:
    return fake("gpu: {profile: t4}").gpus[index].id


def result(name: str, **more: str) -> Json:
    return {"request": "gpu", "driver": DRIVER, "pool": "n", "device": name, **more}


def claim(name: str, *results: Json, config: Json | None = None) -> Json:
    """A claim as the API server has it; its uid is ``uid-<name>``."""
    found: Json = {"results": list(results)}
    if config:
        found["config"] = [{"source": "FromClaim", "opaque": config}]
    status = {"allocation": {"devices": found}} if results else {}
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {}, "status": status}


def claims(names: Iterable[str]) -> list[Claim]:
    """Claims as the kubelet names them."""
    return [Claim(namespace="team", uid=f"uid-{name}", name=name) for name in names]


async def until_there(path: Path) -> None:
    """The driver looks after its sockets every second."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if path.exists():
                return
            await asyncio.sleep(0.02)


class Node:
    """A node's driver and its folders; ``restart`` is what a crash and a new start are."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.topology: NodeTopology | None = fake("gpu: {profile: t4}")
        self.socket = folder / "plugins" / DRIVER / "dra.sock"
        self.registration = folder / "registry" / f"{DRIVER}-reg.sock"
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        kind = Gpus(
            "n",
            lambda: self.topology,
            HostDir(self.folder / "runai", Path("/host")),
            IN_CONTAINER,
            SMI_IN_CONTAINER,
        )
        checkpoint = Checkpoint(self.folder / "plugins" / DRIVER / "checkpoint.json")
        cdi = CdiFolder(self.folder / "cdi", CDI_KIND)
        preparer = ClaimPreparer(self.client, "n", kind, cdi, checkpoint)
        preparer.begin()
        driver = Driver(DRIVER, self.socket.parent, self.registration.parent, preparer)
        self.task = asyncio.create_task(driver.run())
        await until_there(self.registration)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def files(self) -> dict[str, Json]:
        """CDI files by the names after the kind."""
        found = sorted((self.folder / "cdi").iterdir())
        return {one.name.partition("_")[2]: json.loads(one.read_text()) for one in found}

    async def prepare(self, *names: str) -> dict[str, NodePrepareResourceResponse]:
        answer = await call(
            self.socket,
            f"/{DRA_PLUGIN}/NodePrepareResources",
            NodePrepareResourcesRequest(claims=claims(names)),
            NodePrepareResourcesResponse,
            5.0,
        )
        return {uid.removeprefix("uid-"): one for uid, one in answer.claims.items()}

    async def unprepare(self, *names: str) -> list[str]:
        """Claims that are unprepared now."""
        answer = await call(
            self.socket,
            f"/{DRA_PLUGIN}/NodeUnprepareResources",
            NodeUnprepareResourcesRequest(claims=claims(names)),
            NodeUnprepareResourcesResponse,
            5.0,
        )
        # A map of a message has no order.
        return sorted(
            uid.removeprefix("uid-") for uid, one in answer.claims.items() if not one.error
        )


@pytest.fixture
async def node(client: Client, tmp_path: Path) -> AsyncIterator[Node]:
    one = Node(client, tmp_path)
    await one.start()
    yield one
    await one.stop()


async def test_the_kubelet_finds_the_driver_by_its_registration_socket(node: Node) -> None:
    """``DRAPlugin``, version ``v1.DRAPlugin``; both sockets are restored after removal."""
    info = await call(
        node.registration,
        f"/{PLUGIN_REGISTRATION}/GetInfo",
        InfoRequest(),
        PluginInfo,
        5.0,
    )
    assert info == PluginInfo(
        type="DRAPlugin",
        name=DRIVER,
        endpoint=str(node.socket),
        supported_versions=["v1.DRAPlugin"],
    )

    node.registration.unlink()
    await until_there(node.registration)


@pytest.mark.contract("S1-67")
async def test_a_claim_becomes_a_file_with_its_variables(node: Node, api: FakeApi) -> None:
    """Device ``<claimUID>-<device>`` of ``k8s.gpu.nvidia.com/gpu``; ``GPU_DEVICE_<dev with _>``,
    ``_SHARING_STRATEGY`` and ``_PARTITION_COUNT``; the common device has ``NODE_NAME``.
    """
    parameters = {
        "apiVersion": "gpu.resource.example.com/v1alpha1",
        "kind": "GpuConfig",
        "sharing": {
            "strategy": "SpacePartitioning",
            "spacePartitioningConfig": {"partitionCount": 4},
        },
    }
    config = {"driver": DRIVER, "parameters": parameters}
    api.script(f"GET {CLAIMS}/a", reply(claim("a", result(device()), config=config)))

    (answer,) = (await node.prepare("a")).values()

    names = (f"{CDI_KIND}=common", f"{CDI_KIND}=uid-a-{device()}")
    assert list(answer.devices) == [
        Device(request_names=["gpu"], pool_name="n", device_name=device(), cdi_device_ids=names)
    ]
    files = node.files()
    assert sorted(files) == ["common.json", "uid-a.json"]
    (common,) = files["common.json"]["devices"]
    assert common["containerEdits"]["env"] == ["NODE_NAME=n"]
    (one,) = files["uid-a.json"]["devices"]
    variable = "GPU_DEVICE_" + device().replace("-", "_")
    assert one["name"] == f"uid-a-{device()}"
    assert one["containerEdits"]["env"] == [
        f"{variable}={device()}",
        f"{variable}_SHARING_STRATEGY=SpacePartitioning",
        f"{variable}_PARTITION_COUNT=4",
    ]
    (mount,) = one["containerEdits"]["mounts"]
    assert mount["containerPath"] == f"/run/fake-gpu/devices/{device_id()}"
    assert "ro" in mount["options"]
    assert (node.folder / "runai" / "devices" / device_id()).is_dir()


@pytest.mark.contract("S1-B23")
async def test_failed_claim_affects_no_other(node: Node, api: FakeApi) -> None:
    """Other drivers' devices in a claim are theirs; each claim has its own answer, with a reason;
    GPUs that came or failed since the start are known.
    """
    node.topology = fake("gpu: {profile: t4}", failures={1: Failure(48)})
    other = {**result("card-0"), "driver": "net.example.com"}
    bad = {"driver": DRIVER, "parameters": {"apiVersion": "v1", "kind": "GpuConfig"}}
    api.script(f"GET {CLAIMS}/mixed", reply(claim("mixed", other, result(device()))))
    api.script(f"GET {CLAIMS}/others", reply(claim("others", other)))
    api.script(f"GET {CLAIMS}/elsewhere", reply(claim("elsewhere", result(device(), pool="m"))))
    api.script(f"GET {CLAIMS}/failed", reply(claim("failed", result(device(1)))))
    api.script(f"GET {CLAIMS}/unknown", reply(claim("unknown", result("gpu-x"))))
    api.script(f"GET {CLAIMS}/badly", reply(claim("badly", result(device()), config=bad)))
    api.script(f"GET {CLAIMS}/gone", failure(404, "NotFound"))
    another = claim("replaced", result(device()))
    another["metadata"]["uid"] = "another"
    api.script(f"GET {CLAIMS}/replaced", reply(another))
    reasons = {
        "others": "no device of gpu.nvidia.com on node n is allocated to it",
        "elsewhere": "no device of gpu.nvidia.com on node n is allocated to it",
        "failed": "failed with XID 48",
        "unknown": "has no device gpu-x any more",
        "badly": "expected apiVersion gpu.resource.example.com/v1alpha1",
        "gone": "404",
        "replaced": "there is another claim of this name now",
    }

    answers = await node.prepare("mixed", *reasons)

    assert [one.device_name for one in answers["mixed"].devices] == [device()]
    assert answers["mixed"].error == ""
    for name, reason in reasons.items():
        assert not answers[name].devices
        assert answers[name].error.startswith(f"claim team/{name}: "), answers[name]
        assert reason in answers[name].error
    assert sorted(node.files()) == ["common.json", "uid-mixed.json"]


async def test_prepare_repeats_its_answer_after_a_restart_without_the_api(
    node: Node, api: FakeApi
) -> None:
    """Lost files come back, and files of claims that were never finished go."""
    api.script(f"GET {CLAIMS}/a", reply(claim("a", result(device(), shareID="s-1"))))
    before = await node.prepare("a")
    assert before["a"].devices[0].share_id == "s-1"
    (node.folder / "cdi" / "k8s.gpu.nvidia.com-gpu_uid-a.json").unlink()
    assert await node.prepare("a") == before
    (node.folder / "cdi" / "k8s.gpu.nvidia.com-gpu_uid-b.json").write_text("{}")
    (node.folder / "cdi" / "k8s.gpu.nvidia.com-gpu_uid-c.json.new").write_text("half")
    (node.folder / "cdi" / "other-driver.json").write_text("{}")
    node.topology = None

    await node.restart()

    assert await node.prepare("a") == before
    assert api.count(f"GET {CLAIMS}/a") == 1
    names = sorted(one.name for one in (node.folder / "cdi").iterdir())
    prefix = "k8s.gpu.nvidia.com-gpu_"
    assert names == [f"{prefix}common.json", f"{prefix}uid-a.json", "other-driver.json"]


async def test_unknown_claim_is_read_again(node: Node, api: FakeApi) -> None:
    """Before the topology is there, a claim waits."""
    api.script(f"GET {CLAIMS}/a", reply(claim("a", result(device()))))
    topology, node.topology = node.topology, None
    assert "not known yet" in (await node.prepare("a"))["a"].error

    node.topology = topology
    assert (await node.prepare("a"))["a"].error == ""


async def test_unprepare_removes_the_file_and_is_idempotent(node: Node, api: FakeApi) -> None:
    api.script(f"GET {CLAIMS}/a", reply(claim("a", result(device()))))
    await node.prepare("a")

    assert await node.unprepare("a", "never-prepared") == ["a", "never-prepared"]
    assert await node.unprepare("a") == ["a"]

    assert sorted(node.files()) == ["common.json"]
    await node.restart()
    await node.prepare("a")
    assert api.count(f"GET {CLAIMS}/a") == 2


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda text: text[:-9], id="torn"),
        pytest.param(lambda text: text.replace("uid-a", "uid-b"), id="changed"),
    ],
)
async def test_damaged_checkpoint_is_ignored(node: Node, api: FakeApi, damage: Any) -> None:
    """The kubelet asks again, and so the claim is prepared again."""
    api.script(f"GET {CLAIMS}/a", reply(claim("a", result(device()))))
    before = await node.prepare("a")
    await node.stop()
    path = node.folder / "plugins" / DRIVER / "checkpoint.json"
    path.write_text(damage(path.read_text()))

    await node.start()

    assert sorted(node.files()) == ["common.json"]
    assert await node.prepare("a") == before
    assert api.count(f"GET {CLAIMS}/a") == 2


async def test_driver_binds_its_port_as_soon_as_it_is_free(tmp_path: Path) -> None:
    """And then it says how it is; it knows no service but ``liveness``."""

    class NoDevices:
        """Prepares nothing."""

        async def prepare(self, name: Claim) -> NodePrepareResourceResponse:
            return NodePrepareResourceResponse(error=name.name)

        async def unprepare(self, name: Claim) -> NodeUnprepareResourceResponse:
            return NodeUnprepareResourceResponse(error=name.name)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        driver = Driver(DRIVER, tmp_path / "p", tmp_path / "r", NoDevices(), f"127.0.0.1:{port}")
        task = asyncio.create_task(driver.run())
        # Long enough for one attempt, which must not be its end.
        await asyncio.wait({task}, timeout=0.2)
        assert not task.done()
        assert not (tmp_path / "r" / f"{DRIVER}-reg.sock").exists()
    await until_there(tmp_path / "r" / f"{DRIVER}-reg.sock")

    async def ask(service: str) -> HealthCheckResponse:
        request = HealthCheckRequest(service=service)
        address, method = f"dns:///127.0.0.1:{port}", f"/{HEALTH}/Check"
        return await call(address, method, request, HealthCheckResponse, PATIENCE_S)

    assert (await ask("liveness")).status == HealthCheckResponse.SERVING
    with pytest.raises(grpc.aio.AioRpcError, match="unknown service other"):
        await ask("other")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert list((tmp_path / "r").iterdir()) == []
