"""What the agent writes on its node: readings of devices, files of pods; no reader sees a half."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from fakegpu.agent.host_dir import HostDir
from fakegpu.node.device_assignment import assign
from fakegpu.node.runai_proc_files import pod_files
from fakegpu.node.telemetry import read_all
from fakegpu.topology.node_topology import NodeTopology, Utilization
from tests.unit.fakegpu.nodes import H200, fake, use

FOUR = f"{H200}, gpuCount: 4"
RESERVATIONS = "runai-reservation"


def write(folder: HostDir, found: NodeTopology) -> None:
    folder.write(read_all(found, lambda low, _high: low, lambda _: 0))


def shared(fraction: float) -> NodeTopology:
    """GPU 0 is reserved, and two pods share it; GPU 1 is held by a pod of its own."""
    mark = ("runai-gpu-group=g",)
    holder = use("reserver", namespace=RESERVATIONS, created="1", reservation=(*mark, "uid"))
    pods = [
        use(name, gpus=0, created="2", shares=mark, fraction=fraction, load=Utilization(10, 10))
        for name in ("a", "b")
    ]
    return assign(fake(FOUR), [holder, *pods, use("alone", created="3")])


@pytest.mark.contract("S1-31")
def test_nvidia_smi_is_published_again_only_as_a_whole(tmp_path: Path) -> None:
    """A container that runs the old one keeps it; without a program nothing is published."""
    program = tmp_path / "program"
    folder = HostDir(tmp_path / "runai", tmp_path)
    assert not folder.install(program)
    assert not folder.has_smi
    program.write_bytes(b"one")
    assert folder.install(program)
    target = tmp_path / "runai" / "bin" / "nvidia-smi"
    with target.open("rb") as running:
        program.write_bytes(b"two")
        assert folder.install(program)
        assert running.read() == b"one"
    assert target.read_bytes() == b"two"
    assert os.access(target, os.X_OK)
    assert [path.name for path in target.parent.iterdir()] == ["nvidia-smi"]


@pytest.mark.contract("S1-B28")
def test_concurrent_reader_sees_a_complete_reading(tmp_path: Path) -> None:
    """All the time while another thread changes it two hundred times."""
    found = fake(f"{H200}, gpuCount: 1")
    folder = HostDir(tmp_path, tmp_path)
    write(folder, found)
    place = tmp_path / "devices" / found.gpus[0].id / "reading.json"

    def change() -> None:
        for number in range(1, 200):
            percent = Utilization(number % 100, number % 100)
            write(folder, assign(found, [use("p", load=percent)]))

    writer = threading.Thread(target=change)
    seen = [json.loads(place.read_bytes())["utilization"]]
    writer.start()
    while writer.is_alive():
        seen.append(json.loads(place.read_bytes())["utilization"])
    writer.join()
    seen.append(json.loads(place.read_bytes())["utilization"])
    assert (seen[0], seen[-1]) == (0, 99)


def test_a_device_that_is_gone_is_empty_and_its_folder_stays(tmp_path: Path) -> None:
    """It may be mounted somewhere, and the device may come back; also after a restart."""
    found = fake(FOUR)
    folder = HostDir(tmp_path, tmp_path)
    write(HostDir(tmp_path, tmp_path), found)
    write(folder, fake(f"{H200}, gpuCount: 3"))
    last = tmp_path / "devices" / found.gpus[3].id / "reading.json"
    assert last.read_bytes() == b"{}"
    write(folder, found)
    assert json.loads(last.read_bytes())["index"] == 3


def test_an_instance_shows_itself_alone(tmp_path: Path) -> None:
    found = fake(f"{H200}, gpuCount: 1, mig: {{mig-devices: {{1g.10gb: 7}}}}")
    write(HostDir(tmp_path, tmp_path), found)
    one = found.gpus[0].instances[2]
    reading = json.loads((tmp_path / "devices" / one.id / "reading.json").read_bytes())
    assert [each["uuid"] for each in reading["instances"]] == [one.id]
    assert reading["uuid"] == found.gpus[0].id


@pytest.mark.contract("S1-49", "S1-B28")
def test_pods_on_a_reserved_gpu_are_shown_as_files_and_go_with_it(tmp_path: Path) -> None:
    """``/runai/proc/pod/<uid>/metrics/gpu``, by index; bytes are MiB times 2**20."""
    folder = HostDir(tmp_path, tmp_path)
    found = shared(0.5)
    assert found.gpus[0].status.allocated_by.namespace == RESERVATIONS
    folder.write_pods(pod_files(found, RESERVATIONS, lambda low, _high: low, lambda _: 0))
    metrics = tmp_path / "proc/pod/uid-a/metrics/gpu/0"
    assert (metrics / "utilization.sm").read_text() == "10\n"
    assert (metrics / "memory.allocated").read_text() == f"{35840 * 2**20}\n"
    assert sorted(path.name for path in metrics.parents[2].parent.iterdir()) == ["uid-a", "uid-b"]

    folder.write_pods({})
    assert not any((tmp_path / "proc" / "pod").iterdir())
