"""The nvidia-smi that containers get: one small static program, the seed's table, honest failures.

It runs as itself, on folders that the node's agent writes and against the real topology server.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fakegpu.agent.host_dir import HostDir
from fakegpu.config import Server
from fakegpu.node.device_assignment import assign
from fakegpu.node.pod_devices import PodUse
from fakegpu.node.telemetry import InstanceReading, Reading, read_all
from fakegpu.server import Answers, application
from fakegpu.topology.node_topology import NodeTopology, Utilization, encode_yaml
from tests.patience import SLOW_MACHINE
from tests.unit.fakegpu.nodes import fake, use
from tools.controlplane.programs.go_program import ensure_go_program
from tools.image.build import SMI_SOURCE

A100 = "gpu: {profile: a100, overrides: {device_count: 2}}"
A100_40GB = "gpuProduct: NVIDIA-A100-SXM4-40GB, gpuMemory: 40960, gpuCount: 1, "
#: Captured from the seed's program with two GPUs of this profile in use.
GOLDEN = """\
+------------------------------------------------------------------------------+
| NVIDIA-SMI 550.163.01   Driver Version: 550.163.01   CUDA Version: 12.4      |
+--------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                |                      |               MIG M. |
+--------------------------------+----------------------+----------------------+
|   0  NVIDIA-A10..          Off | 00000001:00:00.0 Off |                  Off |
| N/A   33C    P8    11W /  70W  |  40960MiB / 40960MiB |      42%     Default |
|                                |                      |                  N/A |
+--------------------------------+----------------------+----------------------+
|   1  NVIDIA-A10..          Off | 00000001:00:00.0 Off |                  Off |
| N/A   33C    P8    11W /  70W  |  40960MiB / 40960MiB |      87%     Default |
|                                |                      |                  N/A |
+--------------------------------+----------------------+----------------------+

+------------------------------------------------------------------------------+
| Processes:                                                                   |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory  |
|        ID   ID                                                   Usage       |
+------------------------------------------------------------------------------+
|    0   N/A  N/A       PIDPI    G   /usr/bin/python3 train.py ..      40960MiB  |
+------------------------------------------------------------------------------+
"""


class Output(NamedTuple):
    """What a run has printed, and its status."""

    out: str
    error: str
    status: int


@pytest.fixture(scope="module")
def smi() -> Path:
    return ensure_go_program(SMI_SOURCE)


def run(smi: Path, *words: str, **environment: str) -> Output:
    done = subprocess.run(
        [smi, *words], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    return Output(done.stdout, done.stderr, done.returncode)


def busy(name: str, percent: int, **more: Any) -> PodUse:
    return use(name, load=Utilization(min=percent, max=percent), **more)


def write(
    tmp_path: Path, found: NodeTopology, devices: Sequence[str] | None = None
) -> dict[str, str]:
    """The environment of a container that holds these devices, or all of them."""
    everything = HostDir(tmp_path / "node", tmp_path)
    everything.write(read_all(found, lambda low, _high: low, lambda _: 0))
    place = tmp_path / "node" / "devices"
    if devices is not None:
        mounted = tmp_path / "mounted"
        mounted.mkdir()
        for device in devices:
            (mounted / device).symlink_to(place / device)
        place = mounted
    process = tmp_path / "cmdline"
    process.write_bytes(b"/usr/bin/python3\0train.py\0--epochs\0100\0--batch-size\0512\0")
    return {"FAKE_GPU_DEVICES": str(place), "FAKE_GPU_PROCESS": str(process)}


def test_nvidia_smi_reads_only_fields_that_the_agent_writes() -> None:
    """The Go structs and the Python structs are two declarations of one JSON format."""
    tags = re.findall(r'json:"(\w+)', (SMI_SOURCE / "gpu.go").read_text())
    written = {
        field.encode_name
        for struct in (Reading, InstanceReading)
        for field in msgspec.structs.fields(struct)
    }
    assert tags
    assert set(tags) <= written


@pytest.mark.contract("S1-58")
def test_nvidia_smi_table_equals_the_seed(smi: Path, tmp_path: Path) -> None:
    """Line 1 is the date; the process's number is a made-up one."""
    found = assign(fake(A100), [busy("one", 42, created="1"), busy("two", 87, created="2")])
    said = run(smi, **write(tmp_path, found))
    date, _, table = said.out.partition("\n")
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}", date)
    assert re.sub(r"N/A       \d{5} ", "N/A       PIDPI ", table) == GOLDEN
    assert said.status == 0


@pytest.mark.contract("S1-B26")
def test_nvidia_smi_is_small_static_and_fast(smi: Path, tmp_path: Path) -> None:
    """So it runs in any image: no interpreter, no library, below a tenth of a second."""
    assert smi.stat().st_size < 8 * 2**20
    content = smi.read_bytes()
    assert b"/lib64/ld-linux" not in content, "it would need the image's linker"
    environment = write(tmp_path, assign(fake(A100), []))
    began = [time.monotonic()]
    for _ in range(10):
        assert run(smi, "-L", **environment).status == 0
        began.append(time.monotonic())
    assert min(after - before for before, after in itertools.pairwise(began)) < 0.1 * SLOW_MACHINE


@pytest.mark.contract("S4-20")
@pytest.mark.parametrize(
    ("profile", "count"),
    [
        pytest.param(profile, count, id=profile)
        for profile, count in (
            ("1g.5gb", 7),
            ("1g.10gb", 4),
            ("2g.10gb", 3),
            ("3g.20gb", 2),
            ("4g.20gb", 1),
            ("7g.40gb", 1),
        )
    ],
)
def test_each_profile_of_the_a100_can_be_had_as_often_as_it_fits(
    smi: Path, tmp_path: Path, profile: str, count: int
) -> None:
    """As the label ``nvidia.com/mig.config: all-PROFILE`` cuts it; ``-L`` lists the instances."""
    found = assign(fake(f"{A100_40GB}mig: {{mig-devices: {{{profile}: {count}}}}}"), [])
    assert len(found.gpus[0].instances) == count
    lines = run(smi, "-L", **write(tmp_path, found)).out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["MIG", profile]] * count


def test_holder_of_instances_sees_only_its_instances(smi: Path, tmp_path: Path) -> None:
    """``-L`` and the table of a container with two of one GPU."""
    layout = "mig: {mig-devices: {1g.5gb: 1, 2g.10gb: 1, 3g.20gb: 1}}"
    found = assign(fake(A100_40GB + layout), [])
    held = {one.profile: one.id for one in found.gpus[0].instances}
    environment = write(tmp_path, found, [held["1g.5gb"], held["3g.20gb"]])
    lines = run(smi, "-L", **environment).out.splitlines()
    assert lines[0].startswith(f"GPU 0: NVIDIA-A100-SXM4-40GB (UUID: {found.gpus[0].id}")
    shown = {line.split()[1]: line.rsplit(" ", 1)[1][:-1] for line in lines[1:]}
    assert shown == {name: held[name] for name in ("1g.5gb", "3g.20gb")}
    table = run(smi, **environment).out
    assert "MIG devices:" in table
    assert "Enabled" in table
    assert "N/A     Default" in table, "a GPU that is cut has no utilisation"


@pytest.mark.contract("S1-57")
@pytest.mark.parametrize(
    ("share", "total"),
    [
        pytest.param("0.5", 20480, id="half"),
        pytest.param("2", 40960, id="two-GPUs-are-not-one-of-twice-the-memory"),
        pytest.param("x", 40960, id="unreadable"),
    ],
)
def test_the_memory_is_scaled_by_the_pods_share(
    smi: Path, tmp_path: Path, share: str, total: int
) -> None:
    environment = write(tmp_path, assign(fake(A100), [busy("one", 1)]))
    words = ("--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits", "-i", "0")
    said = run(smi, *words, **environment, RUNAI_NUM_OF_GPUS=share)
    assert said.out == f"{total}, {total}\n"
    assert said.status == 0
    assert ("RUNAI_NUM_OF_GPUS" in said.error) is (share == "x")


@pytest.mark.contract("S1-57", "S1-B21")
@pytest.mark.parametrize(
    ("asking", "gpus"),
    [
        pytest.param({"HOSTNAME": "mine", "POD_NAMESPACE": "team"}, 1, id="by-name"),
        pytest.param({"HOSTNAME": "mine"}, 1, id="namespace-unknown"),
        pytest.param({"HOSTNAME": "mine", "POD_NAMESPACE": "other"}, 0, id="namesake"),
        pytest.param(
            {"HOSTNAME": "n", "POD_UUID": "uid-mine"}, 1, id="by-uid-on-the-hosts-network"
        ),
        pytest.param({"HOSTNAME": "mine", "POD_UUID": "uid-other"}, 0, id="another-uid"),
        pytest.param({"HOSTNAME": "idle", "POD_NAMESPACE": "team"}, 0, id="holds-none"),
    ],
)
async def test_pod_without_mounts_sees_what_it_holds_and_no_invented_gpu(
    smi: Path, asking: dict[str, str], gpus: int
) -> None:
    """A fractional pod: the topology server identifies it."""
    found = assign(fake(A100), [busy("mine", 30)])
    said = await ask(smi, "-L", topology=encode_yaml(found), **asking)
    if gpus:
        assert said == Output(f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {found.gpus[0].id})\n", "", 0)
    else:
        assert said == Output("No devices were found\n", "", 1)


@pytest.mark.contract("S1-59")
@pytest.mark.parametrize(
    ("topology", "server", "text"),
    [
        pytest.param(
            None,
            "http://127.0.0.1:9",
            "NVIDIA-SMI has failed because it couldn't communicate with the topology server.",
            id="no-network",
        ),
        pytest.param(None, "", "No devices were found", id="not-found"),
        pytest.param("", "", "Failed to parse devices data", id="no-json"),
    ],
)
async def test_failure_prints_the_seed_text_and_cause_and_exits_with_1(
    smi: Path, topology: str | None, server: str, text: str
) -> None:
    said = await ask(smi, topology=topology, server=server, HOSTNAME="p")
    assert (said.out, said.status) == (f"{text}\n", 1)
    assert said.error.strip()


def test_nvidia_smi_without_a_gpu_fails_like_the_original(smi: Path) -> None:
    """In a container that has no GPU at all."""
    said = run(smi)
    assert "couldn't communicate with the NVIDIA driver" in said.out
    assert said.status == 9


def test_lost_gpu_fails_nvidia_smi(smi: Path, tmp_path: Path) -> None:
    found = assign(fake(A100), [])
    environment = write(tmp_path, found)
    reading = tmp_path / "node" / "devices" / found.gpus[1].id / "reading.json"
    reading.write_text(reading.read_text().replace('"isLost":false', '"isLost":true'))
    said = run(smi, **environment)
    assert "Unable to determine the device handle for GPU1" in said.out
    assert said.status == 15


async def ask(
    smi: Path, *words: str, topology: str | None, server: str = "", **environment: str
) -> Output:
    """Run it against the real topology server, or one that answers nonsense for an empty text."""
    answers = Answers(lambda: None, lambda _: topology, lambda: None)
    app = application(Server(), answers)
    if topology == "":
        app = web.Application()
        app.router.add_get("/topology/nodes/n", _nonsense)
    async with TestServer(app) as there:
        told = {"TOPOLOGY_SERVER": server or str(there.make_url("")), "NODE_NAME": "n"}
        return await asyncio.to_thread(run, smi, *words, **told, **environment)


async def _nonsense(_: web.Request) -> web.Response:
    return web.Response(text="<html>")
