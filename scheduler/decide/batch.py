"""Schedules pods of equal priority as a batch if all of them fit, else in queue order.

One by one, each pod takes its best placement, and the last pod may find none although a placement
for all pods exists. In that case ``instance_search.first`` searches for placements of all pods at
once. If there are none, the queue order decides, and ``decide/mig/packing_bound`` computes the
slices lost by that order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.view import WhatIfView
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.pipeline import Pipeline, first_bound_rejection, first_rejection
from scheduler.framework.plugin import Reasons, Refuse, ReserveContext
from scheduler.framework.view import View
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.mig import layout as mig_layout
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.cache.cluster import Cluster
from scheduler.state.mig.dynamic_gpus import DynamicGpus
from scheduler.state.node_info import NodeInfo
from scheduler.state.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue

#: Maximum number of pods in one batch.
BATCH_PODS_MAX = 8


def joint_placements(gpus: DynamicGpus, profiles: Sequence[str]) -> tuple[MigPlacement, ...] | None:
    """Placements for all requests, or None if they do not fit together."""
    ordered = instance_search.most_constrained_first(gpus.gpu_model, profiles)
    steps = instance_search.first(gpus.gpu_model, gpus.sorted_layouts, ordered)
    if steps is None:
        return None
    waiting = list(instance_search.with_gpu_indexes(gpus, 0.0, steps).mig_placements)
    found: list[MigPlacement] = []
    for profile in profiles:
        mig_placement = next(one for one in waiting if one.profile == profile)
        waiting.remove(mig_placement)
        found.append(mig_placement)
    return tuple(found)


def next_batch(queue: SchedulingQueue, cluster: Cluster, now: float) -> list[QueuedPodInfo]:
    """The next pod to decide; with dynamic MIG also the pods of its priority."""
    return queue.pop_batch(now, BATCH_PODS_MAX if cluster.index.mig_layouts.node_layouts else 1)


def plan_batch(
    cluster: Cluster, pods: Sequence[Pod], pipeline: Pipeline, work: Budget | None = None
) -> tuple[Placement, ...] | None:
    """Placements for pending pods of equal priority where queue order would leave some pending.

    None if the pods are to be decided one by one: each of them fits that way, or not all of them
    fit in any way, or one requests something other than a single MIG instance of a dynamic MIG
    node. Capacity held for a preemptor or a migration is not reassigned.
    """
    if len(pods) < 2 or cluster.nominated:
        return None
    wanted = [instance_search.wanted(pod) for pod in pods]
    if any(
        len(one) != 1 or pod.map_text or pod.volumes or pod.resource_claims
        for one, pod in zip(wanted, pods, strict=True)
    ):
        return None
    if len(set(wanted)) == 1:
        return None  # one by one they fill as much as fits
    work = work or Budget(pipeline.decision_steps_max)
    if _all_fit_one_by_one(cluster, pods, pipeline, work):
        return None
    nodes = _nodes_for_all(cluster, pods, pipeline, work)
    for gpu_model in dict.fromkeys(gpus.gpu_model for _, gpus in nodes):
        pool = [(name, gpus) for name, gpus in nodes if gpus.gpu_model is gpu_model]
        found = _on_one_gpu_model(cluster, pods, [one[0] for one in wanted], pool, pipeline)
        if found is not None:
            return found
    return None


def _all_fit_one_by_one(
    cluster: Cluster, pods: Sequence[Pod], pipeline: Pipeline, work: Budget
) -> bool:
    overlay = WhatIfView(cluster)
    for pod in pods:
        decision = schedule_one(overlay, pod, pipeline, work)
        if isinstance(decision, Rejection):
            return False
        overlay.place(pod, decision.node_name, decision.devices)
    return True


def _nodes_for_all(
    cluster: Cluster, pods: Sequence[Pod], pipeline: Pipeline, work: Budget
) -> list[tuple[str, DynamicGpus]]:
    """The dynamic MIG nodes that every pod of the batch may use; empty if the check takes too many
    steps.
    """
    steps = sum(pod.label_steps for pod in pods)
    found: list[tuple[str, DynamicGpus]] = []
    for node_info in cluster.candidates():
        if node_info.node is None or node_info.gpus is None:
            continue
        if not work.spend(steps):
            return []
        if not any(
            first_rejection(pod, node_info, pipeline.points(pod).class_filters) for pod in pods
        ):
            found.append((node_info.node.name, node_info.gpus))
    return found


def _on_one_gpu_model(
    cluster: Cluster,
    pods: Sequence[Pod],
    profiles: list[str],
    pool: list[tuple[str, DynamicGpus]],
    pipeline: Pipeline,
) -> tuple[Placement, ...] | None:
    owners, every = _useful_gpus(profiles, pool)
    mig_placements = joint_placements(every, profiles)
    if mig_placements is None:
        return None
    overlay = WhatIfView(cluster)
    placements: list[Placement] = []
    for pod, mig_placement in zip(pods, mig_placements, strict=True):
        name, gpu = owners[mig_placement.gpu]
        node_info = overlay.at(name)
        assert node_info is not None
        if _rejections(overlay, pod, node_info, pipeline):
            return None  # the shortage is not in memory slices
        devices = Devices(
            mig_placements=(MigPlacement(gpu, mig_placement.start, mig_placement.profile),)
        )
        context = ReserveContext(overlay, pipeline, node_info)
        placement = pipeline.pre_bind(context, Placement(pod=pod, node_name=name, devices=devices))
        if isinstance(placement, Refuse):
            return None
        placements.append(placement)
        overlay.place(pod, name, devices)
    return tuple(placements)


def _rejections(view: View, pod: Pod, node_info: NodeInfo, pipeline: Pipeline) -> Reasons:
    """The reasons of a node, beside the pods of the batch that are placed already."""
    filtered = pipeline.pre_filter(view, pod)
    if isinstance(filtered, Refuse):
        return (filtered.reason,)
    reasons = first_rejection(pod, node_info, pipeline.points(pod).filters)
    return reasons or first_bound_rejection(node_info, filtered.bound)


def _useful_gpus(
    profiles: list[str], pool: list[tuple[str, DynamicGpus]]
) -> tuple[list[tuple[str, int]], DynamicGpus]:
    """The GPUs where one of the profiles fits, with at most as many GPUs per layout as requests.

    So the cost of the search does not depend on the number of GPUs in the pool.
    """
    gpu_model = pool[0][1].gpu_model
    owners: list[tuple[str, int]] = []
    held: list[mig_layout.Layout] = []
    idle: list[frozenset[mig_layout.Slot]] = []
    seen: Counter[tuple[mig_layout.Layout, frozenset[mig_layout.Slot]]] = Counter()
    fitting: dict[mig_layout.Layout, bool] = {}
    for name, gpus in pool:
        for gpu, layout in enumerate(gpus.held):
            if layout not in fitting:
                fitting[layout] = any(
                    next(instance_search.moves(gpu_model, (layout,), one), None)
                    for one in set(profiles)
                )
            equal = (layout, gpus.idle[gpu])
            if fitting[layout] and seen[equal] < len(profiles):
                seen[equal] += 1
                owners.append((name, gpu))
                held.append(layout)
                idle.append(gpus.idle[gpu])
    return owners, DynamicGpus(gpu_model, tuple(held), tuple(idle))
