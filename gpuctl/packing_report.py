"""How well the pods of a simulation fill the GPUs that are cut to order, told in slices.

Only where somebody waits for such an instance: then the figures say whether the order of the pods
is why, or whether there is no room for him in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gpuctl.simulation_result import Verdict
from scheduler.decide.mig.packing_bound import best
from scheduler.framework.pipeline import first_rejection
from scheduler.model.mig import layout as mig_layout
from scheduler.model.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.cache.cluster import Cluster
from scheduler.state.mig.dynamic_gpus import DynamicGpus
from scheduler.state.node_info import NodeInfo

_CLASS_FILTERS = default_pipeline().class_filters


class Pool(msgspec.Struct, frozen=True):
    """The nodes of one board that are cut to order, and their GPUs as one node's."""

    node_info: tuple[NodeInfo, ...]
    gpus: DynamicGpus


def pools(cluster: Cluster) -> dict[mig_layout.GpuModel, Pool]:
    """What is held now, board by board."""
    found: dict[mig_layout.GpuModel, list[tuple[NodeInfo, DynamicGpus]]] = {}
    for node_info in cluster.candidates():
        if node_info.gpus is not None:
            found.setdefault(node_info.gpus.board, []).append((node_info, node_info.gpus))
    return {board: _pool(board, nodes) for board, nodes in found.items()}


def _pool(board: mig_layout.GpuModel, nodes: Sequence[tuple[NodeInfo, DynamicGpus]]) -> Pool:
    gpus = [one for _, one in nodes]
    held = tuple(layout for one in gpus for layout in one.held)
    idle = tuple(there for one in gpus for there in one.idle)
    return Pool(tuple(node_info for node_info, _ in nodes), DynamicGpus(board, held, idle))


def told(
    before: Mapping[mig_layout.GpuModel, Pool], cluster: Cluster, verdicts: Mapping[str, Verdict]
) -> list[str]:
    """For each board on which one of these pods does not fit, what they fill and could fill."""
    # A pod that was refused at admission does not exist.
    found = [(cluster.pods[uid], one.node) for uid, one in verdicts.items() if uid in cluster.pods]
    now = pools(cluster)
    lines = (_line(board, before[board], now[board], found) for board in before)
    return [line for line in lines if line]


def _line(
    board: mig_layout.GpuModel, before: Pool, now: Pool, pods: Sequence[tuple[Pod, str | None]]
) -> str | None:
    here = {node_info.node.name for node_info in now.node_info if node_info.node is not None}
    placed = [pod for pod, node in pods if node in here]
    left = [pod for pod, node in pods if node is None and _could_go(pod, board, now)]
    if not left:
        return None
    asked = [instance_search.wanted(pod) for pod in (*placed, *left)]
    free, filled = before.gpus.free_slices, before.gpus.free_slices - now.gpus.free_slices
    choice = best(before.gpus, asked)
    head = f"{board.name}, cut to order: these pods fill {filled} of {free} free memory slices"
    if choice.slices <= filled:
        return f"{head}; no choice of them fills more"
    # Two instances of one pod are on one node, and the choice was made as if there were one.
    is_exact = choice.is_exact and (len(here) == 1 or all(len(one) == 1 for one in asked))
    if is_exact:
        return f"{head}; the best choice of them would fill {choice.slices}"
    return f"{head}; no choice of them fills more than {choice.slices}"


def _could_go(pod: Pod, board: mig_layout.GpuModel, pool: Pool) -> bool:
    """Whether it waits for nothing but slices, or for something that is short beside them."""
    asked = instance_search.wanted(pod)
    return (
        bool(asked)
        and not pod.gates
        and all(mig_layout.profile_of(board, profile) is not None for profile in asked)
        and any(not first_rejection(pod, node_info, _CLASS_FILTERS) for node_info in pool.node_info)
    )
