"""Pods whose feasible nodes are compared with each other by kube-scheduler's normalized scores.

Two kinds of pods: those with a preference about other pods (a preferred pod affinity term, or one
of a placed pod about them, a ScheduleAnyway constraint), for which every feasible node is compared;
and those that request no GPU, for which some nodes with the fewest devices are.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.model import well_known
from scheduler.state.index.capacity_bucket import LEAST
from scheduler.state.index.node_index import ANY
from scheduler.state.node_info import NodeInfo

#: About so many nodes are compared by kube-scheduler's scores for a pod without GPUs.
COMPARED_MAX: Final = 32


def are_compared(nodes: FeasibleNodes) -> bool:
    """Whether the pod's nodes are compared with each other instead of searched by best fit."""
    pipeline, pod = nodes.pipeline, nodes.pod
    if pipeline.compares_nodes(nodes.view, pod):
        return True
    return not pod.gpu_requests and pipeline.is_balanced(pod)


def best(nodes: FeasibleNodes) -> NodeInfo | None:
    """The feasible node with the best scores; None if there is none, or the budget is spent."""
    pipeline, pod, view = nodes.pipeline, nodes.pod, nodes.view
    feasible = _feasible(nodes)
    if not feasible or nodes.work.is_over:
        return None
    totals = pipeline.normalized_scores(view, pod, feasible)
    tie_score = pipeline.tie_score(view, pod)
    scored = (
        (pipeline.compared_score(pod, node_info, total, tie_score), node_info)
        for node_info, total in zip(feasible, totals, strict=True)
    )
    return min(scored, key=lambda one: one[0])[1]


def _feasible(nodes: FeasibleNodes) -> list[NodeInfo]:
    if nodes.pipeline.compares_nodes(nodes.view, nodes.pod):
        return nodes.among(nodes.view.candidates())
    listed = nodes.listed()
    return _emptiest(nodes) if listed is None else nodes.among(listed)


def _emptiest(nodes: FeasibleNodes) -> list[NodeInfo]:
    """Some feasible nodes of each class with the fewest devices, most free cpu first: the best by
    kube-scheduler's scores is among them where nodes are of one size.
    """
    pod = nodes.pod
    ranked = nodes.ranked_classes()
    count = sum(len(classes.classes) for classes in ranked)
    found = [node_info for classes in ranked for node_info in nodes.changed_nodes(classes)]
    each = max(1, COMPARED_MAX // max(1, count))
    cpu = pod.requests.get(well_known.CPU, 0) or LEAST
    for classes in ranked:
        for one in classes.classes:
            bucket = one.buckets.get(ANY)
            slots = bucket.fitting(0, cpu, spread=True) if bucket is not None else ()
            fitting = (
                nodes.fitting(classes, name)
                for _, (_, name) in slots
                if nodes.work.spend(pod.node_steps)
            )
            found += islice((info for info in fitting if info is not None), each)
    return found
