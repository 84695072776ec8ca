"""Pods of gpu-scheduler on a node with NVIDIA's device plugin: its kubelet chooses the GPUs."""

from __future__ import annotations

from scheduler.model import well_known
from tests.controlplane.workloads import Watcher, annotation, cuda
from tests.e2e.containers import Json, create, one_gpu_pod, run, shell_pod, wait_for_phase
from tests.e2e.nvidia.container import seen_in
from tests.e2e.nvidia.machine import Machine
from tests.e2e.seed_sharing import SEED_SHARING
from tools.controlplane import ControlPlane

GPU = "nvidia.com/gpu"
MAP = "gpu-scheduling-map"
OURS = "gpu-scheduler"


def name_of(pod: Json) -> str:
    """The name of a pod."""
    return str(pod["metadata"]["name"])


def test_whole_gpus_are_counted_and_a_map_gives_the_node(
    cp: ControlPlane, machine: Machine, here: Watcher
) -> None:
    """Eight A100: each container sees as many GPUs as it requested, and an event of the mapped pod
    says that the kubelet chooses which.
    """
    machine.install("a100", 8)
    machine.start_device_plugin(gpu=8)
    machine.discover()
    notes = {MAP: f"0={machine.node.name}:6,3"}
    pods = [one_gpu_pod("one"), shell_pod("two", limits={GPU: "2"}, schedulerName=OURS)]
    pods.append(shell_pod("mapped-0", limits={GPU: "2"}, annotations=notes, schedulerName=OURS))

    seen = [run(cp, here.namespace, pod) for pod in pods]

    given = [annotation(pod, well_known.DEVICES) for pod in seen]
    assert given == ["gpu x 1", "gpu x 2", "gpu x 2"]
    here.wait_told("mapped-0", "MapHonouredNodeOnly")
    assert cuda(seen[-1]) is None
    uuids = [seen_in(cp, machine.driver, here.namespace, name_of(pod)).uuids for pod in pods]
    assert [len(one) for one in uuids] == [1, 2, 2]
    assert len({*uuids[0], *uuids[1], *uuids[2]}) == 5


def test_a_lost_gpu_is_given_to_no_pod_until_it_is_back(
    cp: ControlPlane, machine: Machine, here: Watcher
) -> None:
    """Of two GPUs the free one is lost: a pod waits with the numbers. A pod on a lost GPU gets an
    event. After a repair and a restart of the plugin the waiting pod runs.
    """
    machine.install("a100", 2)
    machine.start_device_plugin(gpu=2)
    machine.discover()
    run(cp, here.namespace, one_gpu_pod("held"))
    (held,) = seen_in(cp, machine.driver, here.namespace, "held").uuids
    (lost,) = {*machine.driver.uuids} - {held}

    machine.driver.lose(lost)
    machine.wait_advertised(gpu=1)
    here.create(one_gpu_pod("next"))
    here.wait_explained("next", f"Insufficient {GPU} (need 1; best node has 0 free)")
    machine.driver.lose(held)
    machine.wait_advertised(gpu=0)
    here.wait_told("held", "GpuFailed")
    machine.driver.repair()
    machine.start_device_plugin(gpu=2)

    wait_for_phase(cp, here.namespace, "next", "Running")
    assert seen_in(cp, machine.driver, here.namespace, "next").uuids == (lost,)


def test_eight_pods_of_the_lab_share_two_gpus(
    cp: ControlPlane, machine: Machine, here: Watcher
) -> None:
    """Time-slicing with the file of the lab: four pods see the one GPU and four the other; a ninth
    pod waits.
    """
    machine.install("a100", 2)
    machine.start_device_plugin(config=SEED_SHARING, gpu=8)
    labels = machine.discover(config=SEED_SHARING)
    assert labels["nvidia.com/gpu.replicas"] == "4"
    names = [f"shared-gpu-pod-{number}" for number in range(1, 9)]
    for name in names:
        create(cp, here.namespace, one_gpu_pod(name))
    for name in names:
        wait_for_phase(cp, here.namespace, name, "Running")
    here.create(one_gpu_pod("shared-gpu-pod-9"))

    here.wait_explained("shared-gpu-pod-9", f"Insufficient {GPU} (need 1; best node has 0 free)")
    seen = [seen_in(cp, machine.driver, here.namespace, name).uuids for name in names]
    assert sorted(seen.count((uuid,)) for uuid in machine.driver.uuids) == [4, 4]


def test_a_pod_falls_back_to_the_next_mig_profile(
    cp: ControlPlane, machine: Machine, here: Watcher
) -> None:
    """Strategy mixed, two H100 with three instances of 2g.20gb and eight of 1g.10gb: of twelve pods
    that request 2g.20gb three get it, eight get the other, and one waits.
    """
    machine.install("h100", 2, mig="0=2g,2g,2g,1g;1=1g*7")
    machine.start_device_plugin("--mig-strategy=mixed", mig_2g__20gb=3, mig_1g__10gb=8)
    machine.discover("--mig-strategy=mixed")
    names = [f"part-{number}" for number in range(12)]
    for name in names:
        pod = shell_pod(name, limits={"nvidia.com/mig-2g.20gb": "1"}, schedulerName=OURS)
        create(cp, here.namespace, pod)

    def running(items: list[Json]) -> list[Json]:
        return [one for one in items if one["status"]["phase"] == "Running"]

    items = running(here.wait("eleven pods to run", lambda items: len(running(items)) == 11))
    given = sorted(str(annotation(one, well_known.DEVICES)) for one in items)
    assert given == ["1g.10gb x 1"] * 8 + ["2g.20gb x 1"] * 3
    parts = [seen_in(cp, machine.driver, here.namespace, name_of(one)) for one in items]
    assert [(len(one.files), len(one.instances)) for one in parts] == [(1, 1)] * 11
    assert len({one.instances for one in parts}) == 11
    [waiting] = {*names} - {name_of(one) for one in items}
    here.wait_explained(waiting, "nvidia.com/mig-2g.20gb")
