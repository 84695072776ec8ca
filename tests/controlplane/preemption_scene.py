"""PriorityClasses, disruption budgets and victims that end when a test lets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.controlplane.workloads import Json, Watcher
from tools.controlplane import ControlPlane, FakeNode

GPU: Final = "nvidia.com/gpu"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
#: The lab's (seed 004), as the chart has them.
LAB: Final[dict[str, Json]] = {
    "gpu-critical": {"value": 1_000_000},
    "gpu-high": {"value": 100_000},
    "gpu-normal": {"value": 10_000},
    "gpu-low": {"value": 1_000, "preemptionPolicy": "Never"},
}


@contextmanager
def lab_classes(cp: ControlPlane) -> Iterator[None]:
    """The lab's four PriorityClasses exist for as long as the block lasts."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for name, body in LAB.items():
        cp.client.create(CLASSES, {**kind, "metadata": {"name": name}, **body})
    try:
        yield
    finally:
        for name in LAB:
            cp.client.delete_if_there(f"{CLASSES}/{name}")


def guard(here: Watcher, name: str, labels: dict[str, str]) -> None:
    """A PodDisruptionBudget that allows no disruption, once the controller has counted its pods."""
    path = f"/apis/policy/v1/namespaces/{here.namespace}/poddisruptionbudgets"
    body: Json = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }
    here.client.create(path, body)
    here.client.wait_for(
        f"{path}/{name}",
        lambda seen: (
            seen["status"].get("currentHealthy") == 1
            and seen["status"].get("disruptionsAllowed") == 0
        ),
        what=f"the budget {name} to count its pod",
    )


@contextmanager
def still_node(cp: ControlPlane, name: str, gpus: int) -> Iterator[None]:
    """A node without a kubelet and without KWOK: what is deleted there ends when a test says so."""
    node = FakeNode(name=name, gpus=gpus, annotations={"kwok.x-k8s.io/node": "no"})
    cp.client.create("/api/v1/nodes", node.manifest())
    try:
        yield
    finally:
        cp.client.delete_if_there(f"/api/v1/nodes/{name}")


def held(body: Json) -> Json:
    """A pod for such a node: its taints do not matter, and it takes its time to end."""
    body["spec"] |= {"tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 600}
    return body


def let_go(here: Watcher, name: str) -> None:
    """A held pod ends."""
    here.client.delete(here.path("Pod", name), {"gracePeriodSeconds": 0})


def status(here: Watcher, name: str) -> Json:
    """The status of a pod."""
    found: Json = here.client.get(here.path("Pod", name))["status"]
    return found


def disruption(here: Watcher, name: str) -> Json:
    """The condition DisruptionTarget of a pod; empty where it has none."""
    every: list[Json] = status(here, name).get("conditions", [])
    return next((one for one in every if one["type"] == "DisruptionTarget"), {})


def wait_going(here: Watcher, name: str) -> Json:
    """Wait until a pod is being deleted; returns it."""
    found: Json = here.client.wait_for(
        here.path("Pod", name),
        lambda seen: seen is not None and "deletionTimestamp" in seen["metadata"],
        what=f"pod {name} to be deleted",
    )
    return found


def wait_nominated(here: Watcher, name: str, node_name: str) -> None:
    """Wait until a pod's status names this node."""
    here.client.wait_for(
        here.path("Pod", name),
        lambda seen: seen["status"].get("nominatedNodeName", "") == node_name,
        what=f"pod {name} to be nominated for {node_name or 'no node'}",
    )


def wait_running(here: Watcher, *wanted: str) -> None:
    """Wait until pods run, so that they have a start time and count for budgets."""
    here.wait(
        f"{', '.join(wanted)} to run",
        lambda items: (
            {*wanted}
            <= {item["metadata"]["name"] for item in items if item["status"]["phase"] == "Running"}
        ),
    )


def names(here: Watcher) -> set[str]:
    """The pods that are not being deleted."""
    return {
        str(item["metadata"]["name"])
        for item in here.pods()
        if "deletionTimestamp" not in item["metadata"]
    }


def settled(here: Watcher, name: str, text: str) -> Any:
    """The pod's rejection, whose preemption part has this text."""
    return here.wait_explained(name, f"preemption: {text}")
