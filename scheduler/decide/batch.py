"""Pods that are given together: as a whole whenever that is possible, else in their order.

One by one, each pod takes the place that is best for it, and the last one may find none although
all of them would have fitted. So where somebody is left over, places for all are looked for at once
(``decide/joint.first``); only where there are none the order decides, and
``decide/mig/packing_bound`` tells what that cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.view import WhatIfView
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.pipeline import Pipeline, first_rejection
from scheduler.framework.plugin import Refuse, ReserveContext
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.mig import layout as mig_layout
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.cache.cluster import Cluster
from scheduler.state.mig.dynamic_gpus import DynamicGpus
from scheduler.state.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue

#: Pods that are looked at together.
TOGETHER_MAX = 8


def together(gpus: DynamicGpus, profiles: Sequence[str]) -> tuple[MigPlacement, ...] | None:
    """A spot for each of these requests, or None where they do not all fit."""
    asked = instance_search.rigid_first(gpus.board, profiles)
    steps = instance_search.first(gpus.board, gpus.signature, asked)
    if steps is None:
        return None
    waiting = list(instance_search.numbered(gpus, 0.0, steps).spots)
    found: list[MigPlacement] = []
    for profile in profiles:
        spot = next(one for one in waiting if one.profile == profile)
        waiting.remove(spot)
        found.append(spot)
    return tuple(found)


def due(queue: SchedulingQueue, cluster: Cluster, now: float) -> list[QueuedPodInfo]:
    """The next pod to decide; where GPUs are cut to order, those of its priority with it."""
    return queue.pop_batch(now, TOGETHER_MAX if cluster.index.cuts.signatures else 1)


def as_a_whole(
    cluster: Cluster, pods: Sequence[Pod], pipeline: Pipeline, work: Budget | None = None
) -> tuple[Placement, ...] | None:
    """Places for pods of equal priority that wait at once, where their order would fail them.

    None where they are to be decided one after the other: each of them finds a place that way, not
    all of them fit in any way, or one asks for something else than one instance of a GPU that is
    cut to order. What a preemptor or a move holds is nobody else's, and is not shuffled here.
    """
    if len(pods) < 2 or cluster.nominated:
        return None
    wanted = [instance_search.wanted(pod) for pod in pods]
    if any(len(one) != 1 or pod.map_text for one, pod in zip(wanted, pods, strict=True)):
        return None
    if len(set(wanted)) == 1:
        return None  # one after the other they fill as much as fits at all
    work = work or Budget(pipeline.decision_steps_max)
    if _all_find_a_place(cluster, pods, pipeline, work):
        return None
    nodes = _open_to_all(cluster, pods, pipeline, work)
    for board in dict.fromkeys(gpus.board for _, gpus in nodes):
        pool = [(name, gpus) for name, gpus in nodes if gpus.board is board]
        found = _on_one_board(cluster, pods, [one[0] for one in wanted], pool, pipeline)
        if found is not None:
            return found
    return None


def _all_find_a_place(
    cluster: Cluster, pods: Sequence[Pod], pipeline: Pipeline, work: Budget
) -> bool:
    overlay = WhatIfView(cluster)
    for pod in pods:
        decision = schedule_one(overlay, pod, pipeline, work)
        if isinstance(decision, Rejection):
            return False
        overlay.place(pod, decision.node_name, decision.devices)
    return True


def _open_to_all(
    cluster: Cluster, pods: Sequence[Pod], pipeline: Pipeline, work: Budget
) -> list[tuple[str, DynamicGpus]]:
    """The nodes that cut to order and that every one of the pods may use, if that is not too much
    to find out."""
    steps = sum(pod.label_steps for pod in pods)
    found: list[tuple[str, DynamicGpus]] = []
    for node_info in cluster.candidates():
        if node_info.node is None or node_info.gpus is None:
            continue
        if not work.spend(steps):
            return []
        if not any(first_rejection(pod, node_info, pipeline.class_filters) for pod in pods):
            found.append((node_info.node.name, node_info.gpus))
    return found


def _on_one_board(
    cluster: Cluster,
    pods: Sequence[Pod],
    profiles: list[str],
    pool: list[tuple[str, DynamicGpus]],
    pipeline: Pipeline,
) -> tuple[Placement, ...] | None:
    owners, every = _of_use(profiles, pool)
    spots = together(every, profiles)
    if spots is None:
        return None
    overlay = WhatIfView(cluster)
    placements: list[Placement] = []
    for pod, spot in zip(pods, spots, strict=True):
        name, gpu = owners[spot.gpu]
        node_info = overlay.at(name)
        assert node_info is not None
        if first_rejection(pod, node_info, pipeline.every_filter):
            return None  # something else than slices is short there
        devices = Devices(spots=(MigPlacement(gpu, spot.start, spot.profile),))
        context = ReserveContext(overlay, pipeline, node_info)
        placement = pipeline.pre_bind(context, Placement(pod=pod, node_name=name, devices=devices))
        if isinstance(placement, Refuse):
            return None
        placements.append(placement)
        overlay.place(pod, name, devices)
    return tuple(placements)


def _of_use(
    profiles: list[str], pool: list[tuple[str, DynamicGpus]]
) -> tuple[list[tuple[str, int]], DynamicGpus]:
    """Where one of them fits, of each layout no more GPUs than there are requests; as one node.

    So the search costs the same in a pool of ten GPUs and of ten thousand.
    """
    board = pool[0][1].board
    owners: list[tuple[str, int]] = []
    held: list[mig_layout.Layout] = []
    idle: list[frozenset[mig_layout.Slot]] = []
    seen: Counter[tuple[mig_layout.Layout, frozenset[mig_layout.Slot]]] = Counter()
    fitting: dict[mig_layout.Layout, bool] = {}
    for name, gpus in pool:
        for gpu, layout in enumerate(gpus.held):
            if layout not in fitting:
                fitting[layout] = any(
                    next(instance_search.moves(board, (layout,), one), None)
                    for one in set(profiles)
                )
            alike = (layout, gpus.idle[gpu])
            if fitting[layout] and seen[alike] < len(profiles):
                seen[alike] += 1
                owners.append((name, gpu))
                held.append(layout)
                idle.append(gpus.idle[gpu])
    return owners, DynamicGpus(board, tuple(held), tuple(idle))
