"""Scheduling cases that a real API server shows: two schedulers, and what a Binding does."""

from __future__ import annotations

import json

import msgspec
import pytest

from scheduler.bind.binder import encode_binding
from scheduler.framework.decision import Placement
from scheduler.model import well_known
from tests.builders import pod as model_pod
from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra_objects import kube_scheduler
from tests.controlplane.workloads import Watcher, node_of, pod, why
from tools.controlplane import ApiError, ControlPlane

GPU = "nvidia.com/gpu"


def test_case_01_each_scheduler_binds_the_pods_that_name_it(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("case-1", gpus=2)
    for scheduler in ("gpu-scheduler", "default-scheduler", "unknown-scheduler"):
        here.create(pod(scheduler.partition("-")[0], limits={GPU: "1"}, scheduler=scheduler))
    with kube_scheduler(cp):
        here.wait_bound(2)
        here.wait_told("default", "Scheduled")  # it writes the event after the Binding

    of = {item["metadata"]["name"]: item for item in here.pods()}
    assert {name: node_of(item) for name, item in of.items()} == {
        "gpu": "case-1",
        "default": "case-1",
        "unknown": "",
    }
    here.wait_told("gpu", "Scheduled")
    reporters = {name: {event["reportingController"] for event in here.events(name)} for name in of}
    assert "gpu-scheduler" in reporters["gpu"]
    assert "gpu-scheduler" not in reporters["default"] | reporters["unknown"]
    assert why(of["unknown"]) == ""


def test_case_50_the_annotations_of_a_binding_come_with_the_node_name(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("case-50", gpus=1, labels={"gpu-scheduler.io/devices": "numbered"})
    created = here.create(pod("p", limits={GPU: "1"}))
    here.wait_bound(1)

    version = created["metadata"]["resourceVersion"]
    path = f"{here.pods_path}?watch=true&resourceVersion={version}&timeoutSeconds=2"
    shown = [json.loads(line)["object"] for line in cp.kubectl("get", "--raw", path).splitlines()]

    first = next(item for item in shown if node_of(item))
    assert first["metadata"]["annotations"][well_known.DEVICES] == "gpu:0"


def test_case_51_a_binding_for_an_earlier_pod_of_that_name_is_refused(
    here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("case-51", gpus=1)
    former = here.create(pod("p", scheduler="another"))
    here.client.delete(here.path("Pod", "p"), {"gracePeriodSeconds": 0})
    here.wait("the former pod to be gone", lambda items: not items)
    here.create(pod("p", scheduler="another"))

    decided = model_pod("p", namespace=here.namespace, uid=former["metadata"]["uid"])
    placement = Placement(pod=decided, node_name="case-51")
    body = msgspec.json.decode(encode_binding(placement, "", None))
    body["metadata"].pop("annotations")
    with pytest.raises(ApiError) as refused:
        here.client.create(f"{here.path('Pod', 'p')}/binding", body)

    assert refused.value.status == 409
    assert "Precondition failed: UID in precondition" in str(refused.value)
    assert node_of(here.client.get(here.path("Pod", "p"))) == ""
