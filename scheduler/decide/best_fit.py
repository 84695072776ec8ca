"""The best-fitting node of one pod, from the index or, where the index has no entry, from a scan.

Both ways return the same node; a property test compares them on random clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from scheduler.decide import compared_nodes
from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.decide.mig import node_search
from scheduler.framework.budget import Budget
from scheduler.framework.extension_points import TieScore
from scheduler.framework.pipeline import (
    Pipeline,
    Score,
    first_bound_rejection,
    first_rejection,
)
from scheduler.framework.plugin import Bound, DataNodes, Reasons
from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_plan, instance_search
from scheduler.plugins.gpu.devices import assigned
from scheduler.state.index.capacity_bucket import LEAST, Group, Slot
from scheduler.state.index.node_index import ANY, NodeClass, NodeIndex, RankedClasses
from scheduler.state.node_info import NodeInfo

#: Up to this number of classes each class's own bucket is read; beyond it, the bucket of all nodes.
BUCKETS_MAX: Final = 8
#: Up to so many nodes of a bucket are compared with an equal one before them by the tie break.
TIES_MAX: Final = 32

Scored = tuple[Score, NodeInfo]


class Search:
    """The search for one pod among its feasible ``nodes``."""

    def __init__(self, nodes: FeasibleNodes) -> None:
        self._nodes = nodes
        self._view = nodes.view
        self._pod = nodes.pod
        self._pipeline = nodes.pipeline
        self._work = nodes.work
        self._tie_score = nodes.points.tie_score(nodes.view, nodes.pod)
        self._data = nodes.points.data_nodes(nodes.view, nodes.pod)

    def best_node(self) -> NodeInfo | None:
        """The best node, or None; also None if the budget is spent before the node is known."""
        pod, nodes = self._pod, self._nodes
        may_be_named = pod.nominated_node or not pod.is_plain
        if may_be_named and (nominated := nodes.nominated()) is not None:
            return nominated
        if compared_nodes.are_compared(nodes):
            return compared_nodes.best(nodes)
        if (candidates := nodes.listed()) is not None:
            scores = self._tie_score, self._data
            return scan(candidates, pod, self._work, self._pipeline, nodes.bound, *scores)[0]
        return self._from_index()

    def _from_index(self) -> NodeInfo | None:
        view, pod, work, nodes = self._view, self._pod, self._work, self._nodes
        if not work.spend_once(nodes.equivalence_class, len(view.index.classes) * pod.label_steps):
            return None
        for classes in nodes.ranked_classes():
            best = self._best_of(classes)
            if work.is_over:
                return None
            if best is not None:
                return best
        return None

    def _best_of(self, classes: RankedClasses) -> NodeInfo | None:
        """The best node of equally ranked classes: the first one that fits in each bucket."""
        view, pod, work = self._view, self._pod, self._work
        spread = self._pipeline.spreads
        found: list[NodeInfo] = []
        steps, changed = pod.node_steps, view.changed
        if changed:
            found += self._nodes.changed_nodes(classes)
        holders = [] if self._data is None else self._holders(classes, self._data, found)
        is_few = len(classes.classes) <= BUCKETS_MAX
        sources: Sequence[NodeClass | NodeIndex]
        sources = classes.classes if is_few else (*holders, view.index)
        resource, need = next(iter(pod.gpu_requests.items()), (ANY, 0))
        # A node may have less CPU than is requested on it; a pod without a CPU request still fits
        # there.
        cpu = pod.requests.get(well_known.CPU, 0) or LEAST
        for source in sources:
            bucket = source.buckets.get(resource)
            slots = iter(bucket.fitting(need, cpu, spread=spread) if bucket is not None else ())
            for group, (free_cpu, name) in slots:
                if not work.spend(steps):
                    return None
                if name in changed:
                    continue  # it is compared with what is tried out on it
                node_info = self._nodes.fitting(classes, name)
                if node_info is not None:
                    found.append(node_info)
                    if self._tie_score is not None:
                        found += self._ties(classes, slots, group, free_cpu)
                    break
        if view.index.mig_layouts.node_layouts:
            found += self._with_dynamic_mig(classes, sources)
        if len(found) < 2:
            return found[0] if found else None
        return min(found, key=lambda node_info: self._score(classes, node_info))

    def _ties(
        self, classes: RankedClasses, slots: Iterator[tuple[Group, Slot]], group: Group, cpu: int
    ) -> Iterator[NodeInfo]:
        """Feasible nodes of the next slots, as long as they are equal to the one before."""
        for at, (free_cpu, name) in islice(slots, TIES_MAX):
            if (at, free_cpu) != (group, cpu) or not self._work.spend(self._pod.node_steps):
                return
            node_info = self._nodes.fitting(classes, name)
            if node_info is not None:
                yield node_info

    def _score(self, classes: RankedClasses, node_info: NodeInfo) -> Score:
        scores = self._tie_score, self._data
        return self._pipeline.score(self._pod, node_info, classes.soft_penalty, *scores)

    def _holders(
        self, classes: RankedClasses, data: DataNodes, found: list[NodeInfo]
    ) -> list[NodeClass]:
        """The classes of nodes that hold data of the pod: the best one of each is compared too.
        Nodes that hold it without a label are added to those that were ``found``.
        """
        names = (
            sorted(data.names) if self._work.spend(len(data.names) * self._pod.node_steps) else ()
        )
        found += [one for name in names if (one := self._nodes.fitting(classes, name)) is not None]
        return [one for one in classes.classes if data.score(one.sample) > 0]

    def _with_dynamic_mig(
        self, classes: RankedClasses, sources: Sequence[NodeClass | NodeIndex]
    ) -> list[NodeInfo]:
        pod, work = self._pod, self._work

        def fitting(name: str) -> NodeInfo | None:
            return self._nodes.fitting(classes, name) if work.spend(pod.node_steps) else None

        sets = [one.mig_layouts for one in sources]
        return node_search.best(sets, pod, fitting, work, spread=self._pipeline.spreads)


def devices(pod: Pod, node_info: NodeInfo) -> Devices:
    """The devices of a pod without a map on a node where it fits."""
    return assigned(pod, None, node_info, instance_plan.mig_placements(pod, node_info))


def scan(
    candidates: Iterable[NodeInfo],
    pod: Pod,
    work: Budget,
    pipeline: Pipeline,
    bound: Bound = (),
    tie_score: TieScore | None = None,
    data: DataNodes | None = None,
) -> tuple[NodeInfo | None, dict[str, Reasons]]:
    """The best of these nodes, and the reasons of the rejected ones; no best node once ``work`` is
    spent.
    """
    rejected: dict[str, Reasons] = {}
    best: Scored | None = None
    steps, points = pod.label_steps + pod.node_steps, pipeline.points(pod)
    for node_info in candidates:
        if not work.spend(steps):
            return None, rejected
        reasons = first_rejection(pod, node_info, points.class_filters)
        if not reasons:
            _count_search(pod, node_info, work)
            reasons = first_rejection(pod, node_info, points.node_filters)
            reasons = reasons or first_bound_rejection(node_info, bound)
        assert node_info.node is not None
        if reasons:
            rejected[node_info.node.name] = reasons
            continue
        penalty = pipeline.soft_penalty(pod, node_info.node)
        score = pipeline.score(pod, node_info, penalty, tie_score, data)
        if best is None or score < best[0]:
            best = (score, node_info)
    return (best[1] if best else None), rejected


def _count_search(pod: Pod, node_info: NodeInfo, work: Budget) -> None:
    """Count the search for several instances once per group of nodes with equal allocations.

    Each search has its own limit, so the budget is exceeded by at most one search.
    """
    if node_info.gpus is not None and len(profiles := instance_search.wanted(pod)) > 1:
        sorted_layouts = node_info.gpus.sorted_layouts
        found = instance_search.search_jointly(node_info.gpus.gpu_model, sorted_layouts, profiles)
        work.spend_once((node_info.gpus.gpu_model.name, sorted_layouts), found.steps)
