"""MIG instances of NVIDIA's DRA driver: created for a claim, or there before."""

from __future__ import annotations

import json
import re

import pytest

from scheduler.model import well_known
from tests.charts.rendering import SCHEDULER, objects, settings
from tests.controlplane.dra_objects import make
from tests.controlplane.workloads import Watcher, annotation
from tests.dra import claim_spec
from tests.e2e.claims import DRIVER, claiming
from tests.e2e.containers import Json, delete, one_gpu_pod, run, shell_pod, wait_for_phase
from tests.e2e.nvidia.container import seen_in
from tests.e2e.nvidia.machine import Machine
from tools.controlplane import ControlPlane

OURS = "gpu-scheduler"
MAP = "gpu-scheduling-map"


@pytest.fixture(scope="module", autouse=True)
def classes(cp: ControlPlane) -> None:
    """The classes for requests of two profiles, as the chart renders them."""
    chart = objects(SCHEDULER, *settings("dra.migClasses={2g.20gb,1g.10gb}"))
    found = [one for one in chart if one["kind"] == "DeviceClass"]
    assert len(found) == 2
    body = {"apiVersion": "v1", "kind": "List", "items": found}
    cp.kubectl("apply", "-f", "-", input=json.dumps(body))


def test_partitions_of_claims_and_requests_share_a_gpu(
    cp: ControlPlane, machine: Machine, here: Watcher
) -> None:
    """Two H100 that the driver offers whole and in parts. A claim on 3g.40gb and a request for
    ``nvidia.com/mig-1g.10gb`` get instances of one GPU, so the other one stays whole. When both
    pods are gone, their GPU is whole again.
    """
    machine.install("h100", 2)
    machine.discover()
    machine.start_dra_driver("DynamicMIG=true")
    profile = f"device.attributes['{DRIVER}'].profile == '3g.40gb'"
    spec = claim_spec("mig.nvidia.com", selectors=[{"cel": {"expression": profile}}])
    make(cp.client, here.namespace, "resourceclaimtemplates", "half", {"spec": spec})
    half = claiming("half", template="half", schedulerName=OURS)
    request = {"nvidia.com/mig-1g.10gb": "1"}
    pods = [half, shell_pod("seventh", limits=request, schedulerName=OURS), one_gpu_pod("whole")]

    devices = [device_of(run(cp, here.namespace, pod)) for pod in pods]
    here.create(one_gpu_pod("next"))
    here.wait_explained("next", "Insufficient nvidia.com/gpu")

    assert re.fullmatch(r"gpu-\d-mig-3g40gb-\d+-\d", devices[0])
    assert re.fullmatch(r"gpu-\d-mig-1g10gb-\d+-\d", devices[1])
    cards = [one.partition("-mig-")[0] for one in devices]
    assert cards[0] == cards[1]
    assert {cards[0], devices[2]} == {"gpu-0", "gpu-1"}
    names = ("half", "seventh", "whole")
    seen = [seen_in(cp, machine.driver, here.namespace, name) for name in names]
    assert [one.files for one in seen] == [(f"/dev/nvidia{card[-1]}",) for card in cards]
    instances = [one.instances for one in seen]
    assert [len(one) for one in instances] == [1, 1, 0]
    assert instances[0] != instances[1]

    for name in ("half", "seventh"):
        delete(cp, here.namespace, name)
    assert device_of(wait_for_phase(cp, here.namespace, "next", "Running")) == cards[0]


def test_a_pod_falls_back_to_the_next_profile_of_the_driver(
    cp: ControlPlane, machine: Machine, here: Watcher
) -> None:
    """One H100 with three instances of 2g.20gb and one of 1g.10gb, and a whole one: the fourth pod
    that requests 2g.20gb gets the other. A map names the whole GPU only.
    """
    machine.install("h100", 2, mig="0=2g,2g,2g,1g")
    machine.discover("--mig-strategy=mixed")
    machine.start_dra_driver()
    request = {"nvidia.com/mig-2g.20gb": "1"}
    names = [f"part-{number}" for number in range(4)]
    pods = [
        run(cp, here.namespace, shell_pod(name, limits=request, schedulerName=OURS))
        for name in names
    ]
    given = [str(annotation(pod, well_known.DEVICES)).partition(";")[0] for pod in pods]
    assert given == ["2g.20gb x 1"] * 3 + ["1g.10gb x 1"]
    seen = [seen_in(cp, machine.driver, here.namespace, name) for name in names]
    assert {one.files for one in seen} == {("/dev/nvidia0",)}
    assert {one.instances for one in seen} == {frozenset({f"gpu0/gi{n}"}) for n in range(1, 5)}

    for number in (0, 1):
        notes = {MAP: f"{number}={machine.node.name}:{number}"}
        here.create(shell_pod(f"mapped-{number}", annotations=notes, schedulerName=OURS))
    here.wait_explained("mapped-0", "whose GPU 0 has MIG instances")
    wait_for_phase(cp, here.namespace, "mapped-1", "Running")
    assert seen_in(cp, machine.driver, here.namespace, "mapped-1").files == ("/dev/nvidia1",)


def device_of(pod: Json) -> str:
    """The one device of the claims of a pod, as its annotation names it."""
    return str(annotation(pod, well_known.DEVICES)).partition("claim:")[2]
