"""Pods of gpu-scheduler on a node whose GPUs NVIDIA's DRA driver publishes."""

from __future__ import annotations

from functools import partial

import pytest

from scheduler.model import well_known
from tests.controlplane.dra_objects import make
from tests.controlplane.workloads import Watcher, annotation, cuda
from tests.dra import claim_spec
from tests.e2e.claims import claiming, devices
from tests.e2e.containers import one_gpu_pod, run, shell_pod, wait_for_phase
from tests.e2e.nvidia.container import seen_in
from tests.e2e.nvidia.machine import DRA_DRIVER, Machine
from tools.controlplane import ControlPlane, wait_until

GPU = "nvidia.com/gpu"
MAP = "gpu-scheduling-map"
OURS = "gpu-scheduler"
#: The minors of the GPUs in the order of nvidia-smi, which is that of the PCI bus ids.
MINORS = (2, 3, 0, 1)
#: A pod of gpu-scheduler with one claim.
claimer = partial(claiming, schedulerName=OURS)


@pytest.fixture(scope="module")
def four(machine: Machine) -> Machine:
    """Four A100 whose minors have another order than their PCI bus ids."""
    machine.install("a100", 4, minors=MINORS)
    machine.discover()
    published = machine.start_dra_driver()
    assert {one["name"] for one in published} == {f"gpu-{minor}" for minor in MINORS}
    return machine


def test_claims_get_distinct_gpus_and_a_shared_claim_gets_one(
    cp: ControlPlane, four: Machine, here: Watcher
) -> None:
    """Claims on whole GPUs: one from a template, one that two pods name."""
    make(cp.client, here.namespace, "resourceclaimtemplates", "gpu-claim", {"spec": claim_spec()})
    make(cp.client, here.namespace, "resourceclaims", "shared", claim_spec())
    here.create(claimer("gpu-pod", template="gpu-claim"))
    for name in ("with", "each-other"):
        here.create(claimer(name, claim="shared"))
    for name in ("gpu-pod", "with", "each-other"):
        wait_for_phase(cp, here.namespace, name, "Running")

    seen = {
        name: seen_in(cp, four.driver, here.namespace, name)
        for name in ("gpu-pod", "with", "each-other")
    }
    assert [len(one.uuids) for one in seen.values()] == [1, 1, 1]
    assert seen["with"] == seen["each-other"]
    assert seen["with"] != seen["gpu-pod"]


def test_a_map_gives_exactly_the_gpus_of_its_line(
    cp: ControlPlane, four: Machine, here: Watcher
) -> None:
    """A map on a DRA node, with minors in another order than the indexes: nvidia-smi in the
    container lists the GPUs of the line, whether the pod has a request or the webhook adds it.
    """
    gpus = four.driver.uuids
    notes = {MAP: f"0={four.node.name}:1,2\n1={four.node.name}:3\n2={four.node.name}:2"}
    bare = shell_pod("mapped-0", annotations=notes, schedulerName=OURS)
    counted = shell_pod("mapped-1", limits={GPU: "1"}, annotations=notes, schedulerName=OURS)

    pods = [run(cp, here.namespace, pod) for pod in (bare, counted)]

    given = [annotation(pod, well_known.DEVICES) for pod in pods]
    assert given == ["gpu:1,2; claim:gpu-3,gpu-0", "gpu:3; claim:gpu-1"]
    assert [cuda(pod) for pod in pods] == [None, None]
    first, second = (seen_in(cp, four.driver, here.namespace, f"mapped-{n}") for n in (0, 1))
    assert {*first.uuids} == {gpus[1], gpus[2]}
    assert first.files == ("/dev/nvidia0", "/dev/nvidia3")
    assert (second.uuids, second.files) == ((gpus[3],), ("/dev/nvidia1",))

    here.create(shell_pod("mapped-2", annotations=notes, schedulerName=OURS))
    here.wait_explained("mapped-2", "mapped-0")


def test_whole_gpus_of_a_request_are_claimed(
    cp: ControlPlane, four: Machine, here: Watcher
) -> None:
    """``nvidia.com/gpu: 3`` leaves one of four GPUs: a pod that requests two waits with the
    numbers, one that requests one runs.
    """
    run(cp, here.namespace, shell_pod("three", limits={GPU: "3"}, schedulerName=OURS))
    here.create(shell_pod("two", limits={GPU: "2"}, schedulerName=OURS))
    here.wait_explained("two", f"Insufficient {GPU} (need 2; best node has 1 free)")
    run(cp, here.namespace, one_gpu_pod("one"))

    seen = [seen_in(cp, four.driver, here.namespace, name).uuids for name in ("three", "one")]
    assert [len(one) for one in seen] == [3, 1]
    assert {*seen[0], *seen[1]} == {*four.driver.uuids}


def test_a_lost_gpu_is_given_to_no_pod_until_it_is_back(
    cp: ControlPlane, machine: Machine, here: Watcher
) -> None:
    """The driver taints a device after XID 79. Its GPU is used again when the driver has started
    with a repaired GPU.
    """
    machine.install("a100", 2)
    machine.discover()
    machine.start_dra_driver("NVMLDeviceHealthCheck=true")
    run(cp, here.namespace, one_gpu_pod("held"))
    (held,) = seen_in(cp, machine.driver, here.namespace, "held").uuids
    (lost,) = {*machine.driver.uuids} - {held}

    machine.driver.lose(lost)
    wait_until(
        lambda: any("taints" in one for one in devices(cp, machine.node)), what="the device taint"
    )
    here.create(one_gpu_pod("next"))
    here.wait_explained("next", f"Insufficient {GPU}")
    machine.driver.repair()
    machine.stop(DRA_DRIVER)
    machine.start_dra_driver("NVMLDeviceHealthCheck=true")

    wait_for_phase(cp, here.namespace, "next", "Running")
    assert seen_in(cp, machine.driver, here.namespace, "next").uuids == (lost,)
