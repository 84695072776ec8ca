"""The parts of the lab in order; each returns what was seen, or raises ``LabError``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tools.controlplane import wait_until
from tools.lab.cluster import GPU, MANIFESTS, Cluster, Json

#: What the lab writes by hand on its nodes, and the operator here.
LABELS: Final = {
    "gpu-node-1": {"gpu-type": "a100", "gpu-count": "8", GPU: "true"},
    "gpu-node-2": {"gpu-type": "v100", "gpu-count": "4", GPU: "true"},
    "gpu-node-3": {"gpu-type": "t4", "gpu-count": "2", GPU: "true"},
}
METRICS: Final = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
)
SHARERS: Final = 8
WAIT_S: Final = 30.0


class LabError(Exception):
    """A part saw something else than the lab promises."""


def expect(is_so: bool, problem: str) -> None:  # reads as a sentence
    """LabError with the problem unless the condition holds."""
    if not is_so:
        raise LabError(problem)


def plugin(cluster: Cluster) -> str:
    """Part 1: GPUs are in the capacity of the nodes."""
    for name, count in (("gpu-node-1", 8), ("gpu-node-2", 4), ("gpu-node-3", 2)):
        wait_gpus(cluster, name, count)
    return "8, 4 and 2 nvidia.com/gpu are allocatable on gpu-node-1, -2 and -3"


def labels(cluster: Cluster) -> str:
    """Part 2: the nodes carry the labels of their GPU types."""
    for name, wanted in LABELS.items():
        cluster.node(name, partial(_has_labels, wanted), f"the labels of {name}")
    return "gpu-type, gpu-count and nvidia.com/gpu=true follow from the pools"


def priorities(cluster: Cluster) -> str:
    """Part 3: a pod of high priority preempts one of low priority."""
    cluster.apply("03-priorities.yaml")
    cluster.apply("03-low.yaml")
    expect(cluster.on_node("low-priority-gpu") == "gpu-node-3", "the low pod is elsewhere")
    cluster.apply("03-high.yaml")
    node = cluster.on_node("high-priority-gpu")
    event = cluster.events("low-priority-gpu", "Preempted")
    expect(node == "gpu-node-3", f"the high pod is on {node}")
    return f"{event['message']}"


def affinity(cluster: Cluster) -> str:
    """Part 4: pods reach the GPU type that they require or prefer."""
    cluster.delete_workloads()
    cluster.apply("04-affinity.yaml")
    nodes = {pod["spec"]["nodeName"] for pod in cluster.pods("app=a100-training", 2)}
    expect(nodes == {"gpu-node-1"}, f"a100-training is on {', '.join(sorted(nodes))}")
    flexible = cluster.on_node("flexible-gpu-pod")
    expect(flexible == "gpu-node-1", f"flexible-gpu-pod is on {flexible}")
    return "a100-training (2 x 2 GPUs, 32Gi) and flexible-gpu-pod are on gpu-node-1"


def taints(cluster: Cluster) -> str:
    """Part 5: the taint keeps pods away that do not tolerate it."""
    cluster.delete_workloads()
    taint = "dedicated=gpu:NoSchedule"
    cluster.plane.kubectl("taint", "nodes", "-l", f"{GPU}=true", taint, "--overwrite")
    cluster.apply("05-tolerated.yaml")
    tolerated = cluster.on_node("tolerated-gpu-pod")
    expect(tolerated.startswith("gpu-node-"), f"tolerated-gpu-pod is on {tolerated}")
    bare = cluster.on_node("no-gpu-pod")
    expect(bare == "cpu-node-1", f"the pod without GPUs is on {bare}")
    pod = cluster.pod("not-tolerated-gpu-pod", lambda one: bool(_rejection(one)), "a rejection")
    expect("taint" in _rejection(pod), f"it waits for another reason: {_rejection(pod)}")
    return f"tolerated-gpu-pod is on {tolerated}; without the toleration a pod waits"


def monitoring(cluster: Cluster) -> str:
    """Part 6: the exporter has the lab's metrics, and the dashboard queries them."""
    cluster.apply("06-monitoring.yaml")
    cluster.dashboard()

    def series() -> bool:
        text = cluster.metrics()
        return all(f"{name}{{" in text for name in METRICS) and 'pod="tolerated-gpu-pod"' in text

    wait_until(series, what="the lab's metrics with the pod", timeout_s=WAIT_S)
    text = cluster.metrics()
    counts = [len(re.findall(rf"^{name}\{{", text, re.MULTILINE)) for name in METRICS]
    return f"{len(METRICS)} metrics, {min(counts)} to {max(counts)} series each, one of the pod"


def sharing(cluster: Cluster) -> str:
    """Part 7: eight pods share two GPUs by time-slicing."""
    cluster.delete_workloads()
    cluster.apply("01-plugin.yaml")
    wait_gpus(cluster, "gpu-node-3", SHARERS)
    template = (MANIFESTS / "07-shared.yaml").read_text(encoding="utf-8")
    names = [f"shared-gpu-pod-{number}" for number in range(1, SHARERS + 1)]
    texts = [template.replace("{number}", str(number)) for number in range(1, SHARERS + 1)]
    cluster.apply_text("\n---\n".join(texts))
    nodes = {cluster.on_node(name) for name in names}
    expect(nodes == {"gpu-node-3"}, f"they are on {', '.join(sorted(nodes))}")

    def is_seen() -> bool:
        text = cluster.metrics()
        return all(f'pod="{name}"' in text for name in names)

    wait_until(is_seen, what="a series for each pod that shares", timeout_s=WAIT_S)
    gpus = len(set(re.findall(r'UUID="([^"]+)"[^}]*pod="shared-gpu-pod-', cluster.metrics())))
    expect(gpus == 2, f"they use {gpus} GPUs")
    return f"{SHARERS} pods run on 2 GPUs of gpu-node-3, each with a series of its own"


Part = Callable[[Cluster], str]
PARTS: Final[dict[str, Part]] = {
    "1 device plugin": plugin,
    "2 labels": labels,
    "3 priorities": priorities,
    "4 affinity": affinity,
    "5 taints": taints,
    "6 monitoring": monitoring,
    "7 time-slicing": sharing,
}


def wait_gpus(cluster: Cluster, name: str, count: int) -> None:
    """Wait until a node offers so many GPUs."""
    cluster.node(
        name,
        lambda node: node["status"].get("allocatable", {}).get(GPU) == str(count),
        f"{count} {GPU} on {name}",
    )


def _has_labels(wanted: Mapping[str, str], node: Json) -> bool:
    labels: Mapping[str, str] = node["metadata"]["labels"]
    return wanted.items() <= labels.items()


def _rejection(pod: Json) -> str:
    conditions = pod.get("status", {}).get("conditions") or ()
    found = (one for one in conditions if one["type"] == "PodScheduled")
    return next((one.get("message", "") for one in found if one["status"] == "False"), "")
