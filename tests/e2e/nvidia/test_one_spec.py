"""One pod spec on a node with NVIDIA's device plugin and on one with NVIDIA's DRA driver."""

from __future__ import annotations

from scheduler.model import well_known
from tests.controlplane.workloads import Watcher, annotation
from tests.e2e.containers import delete, one_gpu_pod, run
from tests.e2e.nvidia.container import seen_in
from tests.e2e.nvidia.machine import Machine
from tools.controlplane import ControlPlane


def test_one_pod_spec_runs_with_plugin_and_with_driver(
    cp: ControlPlane, machine: Machine, here: Watcher
) -> None:
    """``nvidia.com/gpu: 1`` on one node before and after its change from plugin to driver: the
    kubelet assigns the GPU, then a claim names it. Its kubelet then offers the resource as 0.
    """
    machine.install("a100", 2)
    machine.start_device_plugin(gpu=2)
    machine.discover()
    counted = run(cp, here.namespace, one_gpu_pod("counted"))
    seen = seen_in(cp, machine.driver, here.namespace, "counted")
    assert annotation(counted, well_known.DEVICES) == "gpu x 1"
    assert len(seen.uuids) == 1

    delete(cp, here.namespace, "counted")
    machine.stop()
    machine.wait_advertised(gpu=0)
    machine.start_dra_driver()
    claimed = run(cp, here.namespace, one_gpu_pod("claimed"))
    seen = seen_in(cp, machine.driver, here.namespace, "claimed")

    device = str(annotation(claimed, well_known.DEVICES)).partition("claim:")[2]
    assert device in {"gpu-0", "gpu-1"}
    assert seen.files == (f"/dev/nvidia{device[-1]}",)
    assert seen.uuids == (machine.driver.uuids[int(device[-1])],)
