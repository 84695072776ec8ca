"""Reports how full the pods of a simulation make the GPUs of dynamic MIG, in memory slices.

The report exists only if a pod waits for such an instance. It shows whether the order of the pods
is the cause, or whether no order has room for the pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gpuctl.simulate.result import Verdict
from scheduler.decide.mig.packing_bound import best
from scheduler.framework.pipeline import first_rejection
from scheduler.model.mig import layout as mig_layout
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.cache.cluster import Cluster
from scheduler.state.mig.dynamic_gpus import DynamicGpus
from scheduler.state.node_info import NodeInfo

_PIPELINE = default_pipeline()


class Pool(msgspec.Struct, frozen=True):
    """The dynamic-MIG nodes of one GPU model, and their GPUs as if on one node."""

    node_info: tuple[NodeInfo, ...]
    gpus: DynamicGpus


def pools(cluster: Cluster) -> dict[mig_layout.GpuModel, Pool]:
    """The current allocation per GPU model."""
    nodes_of: dict[mig_layout.GpuModel, list[tuple[NodeInfo, DynamicGpus]]] = {}
    for node_info in cluster.candidates():
        if node_info.gpus is not None:
            nodes_of.setdefault(node_info.gpus.gpu_model, []).append((node_info, node_info.gpus))
    return {gpu_model: _pool(gpu_model, nodes) for gpu_model, nodes in nodes_of.items()}


def _pool(gpu_model: mig_layout.GpuModel, nodes: Sequence[tuple[NodeInfo, DynamicGpus]]) -> Pool:
    gpus = [gpus_of_node for _, gpus_of_node in nodes]
    held = tuple(layout for gpus_of_node in gpus for layout in gpus_of_node.held)
    idle = tuple(slots for gpus_of_node in gpus for slots in gpus_of_node.idle)
    return Pool(tuple(node_info for node_info, _ in nodes), DynamicGpus(gpu_model, held, idle))


def render(
    before: Mapping[mig_layout.GpuModel, Pool], cluster: Cluster, verdicts: Mapping[str, Verdict]
) -> list[str]:
    """A line per GPU model on which a pod does not fit: slices filled, and the best possible."""
    # A pod that was rejected at admission does not exist.
    pods = [
        (cluster.pods[uid], verdict.node)
        for uid, verdict in verdicts.items()
        if uid in cluster.pods
    ]
    now = pools(cluster)
    lines = (_line(gpu_model, before[gpu_model], now[gpu_model], pods) for gpu_model in before)
    return [line for line in lines if line]


def _line(
    gpu_model: mig_layout.GpuModel, before: Pool, now: Pool, pods: Sequence[tuple[Pod, str | None]]
) -> str | None:
    here = {node_info.node.name for node_info in now.node_info if node_info.node is not None}
    placed = [pod for pod, node in pods if node in here]
    left = [pod for pod, node in pods if node is None and _could_go(pod, gpu_model, now)]
    if not left:
        return None
    asked = [instance_search.wanted(pod) for pod in (*placed, *left)]
    free, filled = before.gpus.free_slices, before.gpus.free_slices - now.gpus.free_slices
    choice = best(before.gpus, asked)
    head = f"{gpu_model.name}, dynamic MIG: these pods fill {filled} of {free} free memory slices"
    if choice.slices <= filled:
        return f"{head}; no choice of them fills more"
    # The instances of a pod must share a node, and the best choice treats all nodes as one.
    is_exact = choice.is_exact and (len(here) == 1 or all(len(profiles) == 1 for profiles in asked))
    if is_exact:
        return f"{head}; the best choice of them would fill {choice.slices}"
    return f"{head}; no choice of them fills more than {choice.slices}"


def _could_go(pod: Pod, gpu_model: mig_layout.GpuModel, pool: Pool) -> bool:
    """Whether the pod requests profiles of this GPU model and passes the class filters."""
    asked = instance_search.wanted(pod)
    return (
        bool(asked)
        and not pod.gates
        and all(mig_layout.profile_of(gpu_model, profile) is not None for profile in asked)
        and any(
            not first_rejection(pod, node_info, _PIPELINE.points(pod).class_filters)
            for node_info in pool.node_info
        )
    )
