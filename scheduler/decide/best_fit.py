"""The best-fitting node of one pod, from the index or, where the index has no entry, from a scan.

Both ways return the same node; a property test compares them on random clusters. If no node fits,
every node's reasons are computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from scheduler.decide.mig import node_search
from scheduler.framework.budget import Budget, is_light
from scheduler.framework.pipeline import (
    Pipeline,
    Score,
    first_bound_rejection,
    first_rejection,
)
from scheduler.framework.plugin import Bound, Reasons
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.model.mig import layout
from scheduler.model.pods.pod import Pod
from scheduler.model.reason import Diagnosis
from scheduler.plugins.dynamic_mig import instance_plan, instance_search
from scheduler.plugins.gpu.devices import assigned
from scheduler.state.index.capacity_bucket import LEAST
from scheduler.state.index.filter_cache import Check
from scheduler.state.index.node_index import ANY, NodeClass, RankedClasses
from scheduler.state.node_info import NodeInfo

#: Up to this number of classes each class's own bucket is read; beyond it, the bucket of all nodes.
BUCKETS_MAX: Final = 8
#: Up to so many nodes that alone can pass are scanned instead of searched for.
ONLY_MAX: Final = 256
#: About so many nodes are compared by kube-scheduler's scores for a pod without GPUs.
COMPARED_MAX: Final = 32

Scored = tuple[Score, NodeInfo]


class Search:
    """The search for one pod; ``work`` counts the steps."""

    def __init__(
        self, view: View, pod: Pod, pipeline: Pipeline, work: Budget, bound: Bound = ()
    ) -> None:
        self._view = view
        self._pod = pod
        self._pipeline = pipeline
        self._work = work
        self._bound = bound
        self.equivalence_class = pipeline.equivalence_class(pod)

    def best_node(self) -> NodeInfo | None:
        """The best node, or None; also None if the budget is spent before the node is known."""
        view, pod, work = self._view, self._pod, self._work
        if (compared := self._compared()) is not None:
            return self._best_compared(compared)
        if (candidates := self._listed()) is not None:
            return scan(candidates, pod, work, self._pipeline, self._bound)[0]
        if not work.spend_once(self.equivalence_class, len(view.index.classes) * pod.label_steps):
            return None
        for classes in self._ranked_classes():
            best = self._best_of(classes)
            if work.is_over:
                return None
            if best is not None:
                return best
        return None

    def diagnosis(self) -> Diagnosis | None:
        """The reasons of every node, or None if one node fits."""
        check, filter_results = self._checker(), self._view.filter_results
        is_kept = is_light(self._pod)
        results = (
            filter_results.of(self.equivalence_class, check)
            if is_kept
            else filter_results.uncached(check)
        )
        answers = {name: check(node_info) for name, node_info in self._view.changed.items()}
        if self._bound:
            for name in (*results.feasible(), *answers):
                node_info = self._view.at(name)
                assert node_info is not None
                answers[name] = answers.get(name) or first_bound_rejection(node_info, self._bound)
        return results.diagnosis(answers)

    def is_infeasible(self) -> bool:
        """Whether every node rejects the pod, even without the placements that are tried out."""
        return self._view.filter_results.of(self.equivalence_class, self._checker()).is_infeasible

    def steps_of_diagnosis(self) -> int:
        """The steps needed to compute every node's reasons, or any number above the budget."""
        view, pod = self._view, self._pod
        nodes = len(view.nodes) + len(view.changed)
        if self._is_covered():
            steps = len(view.index.classes) * pod.label_steps + nodes * pod.node_steps
        else:
            steps = nodes * (pod.label_steps + pod.node_steps)
        node_layouts = view.index.mig_layouts.node_layouts
        if node_layouts and len(profiles := instance_search.wanted(pod)) > 1:
            for one in node_layouts:
                if steps > self._work.limit:
                    break
                gpu_model = layout.GPU_MODELS[one.gpu_model]
                steps += instance_search.search_jointly(gpu_model, one.layouts, profiles).steps
        return steps

    def _checker(self) -> Check:
        """The check of a node for the pod; the class filters run once per class."""
        view, pod, pipeline = self._view, self._pod, self._pipeline
        every, of_class, of_node = (
            pipeline.every_filter,
            pipeline.class_filters,
            pipeline.node_filters,
        )
        if not self._is_covered():
            return lambda node_info: first_rejection(pod, node_info, every)
        by_class: dict[int, Reasons] = {}

        def check(node_info: NodeInfo) -> Reasons:
            assert node_info.node is not None
            number = view.index.class_of(node_info.node.name)
            reasons = by_class.get(number)
            if reasons is None:
                reasons = by_class[number] = first_rejection(pod, node_info, of_class)
            return reasons or first_rejection(pod, node_info, of_node)

        return check

    def _is_covered(self) -> bool:
        """Whether the classes of the index are sufficient for the pod's labels and taints."""
        keys = self._pod.label_keys
        if self._pipeline.node_labels:
            keys |= self._pipeline.node_labels
        return not self._pod.names_nodes and self._view.index.covers(keys)

    def _ranked_classes(self) -> tuple[RankedClasses, ...]:
        """The classes that the pod may use; cached for pods with few constraints only."""
        index = self._view.index
        if not is_light(self._pod):
            return self._sort(index.classes.values())
        return index.ranked_classes(self._pipeline.constraints(self._pod), self._sort)

    def _sort(self, classes: Iterable[NodeClass]) -> tuple[RankedClasses, ...]:
        """The classes that pass the class filters, smallest soft penalty first."""
        pod, pipeline = self._pod, self._pipeline
        by_penalty: dict[int, list[NodeClass]] = {}
        for one in classes:
            if not first_rejection(pod, one.sample, pipeline.class_filters):
                assert one.sample.node is not None
                penalty = pipeline.soft_penalty(pod, one.sample.node)
                by_penalty.setdefault(penalty, []).append(one)
        return tuple(
            RankedClasses(penalty, tuple(equal), frozenset(one.number for one in equal))
            for penalty, equal in sorted(by_penalty.items())
        )

    def _best_of(self, classes: RankedClasses) -> NodeInfo | None:
        """The best node of equally ranked classes: the first one that fits in each bucket."""
        view, pod, work = self._view, self._pod, self._work
        spread = self._pipeline.spreads
        found = self._changed_nodes(classes)
        is_few = len(classes.classes) <= BUCKETS_MAX
        resource, need = next(iter(pod.gpu_requests.items()), (ANY, 0))
        # A node may have less CPU than is requested on it; a pod without a CPU request still fits
        # there.
        cpu = pod.requests.get(well_known.CPU, 0) or LEAST
        sets = [one.buckets for one in classes.classes] if is_few else [view.index.buckets]
        for buckets in sets:
            bucket = buckets.get(resource)
            for _, (_, name) in (
                bucket.fitting(need, cpu, spread=spread) if bucket is not None else ()
            ):
                if not work.spend(pod.node_steps):
                    return None
                node_info = self._fitting(classes, name)
                if node_info is not None:
                    found.append((self._score(classes, node_info), node_info))
                    break
        if view.index.mig_layouts.node_layouts:
            found += self._with_dynamic_mig(classes, is_few=is_few)
        return min(found, key=lambda scored: scored[0])[1] if found else None

    def _score(self, classes: RankedClasses, node_info: NodeInfo) -> Score:
        return self._pipeline.score(self._pod, node_info, classes.soft_penalty)

    def _fitting(self, classes: RankedClasses, name: str) -> NodeInfo | None:
        """The node that the index returned, if it fits and has no placement on top."""
        view = self._view
        if name in view.changed or view.index.class_of(name) not in classes.numbers:
            return None
        node_info = view.at(name)
        assert node_info is not None, f"{name} is in a bucket and does not exist"
        return None if self._rejected(node_info) else node_info

    def _rejected(self, node_info: NodeInfo) -> Reasons:
        """Why a node of a class that passed does not take the pod."""
        reasons = first_rejection(self._pod, node_info, self._pipeline.node_filters)
        return reasons or first_bound_rejection(node_info, self._bound)

    def _with_dynamic_mig(self, classes: RankedClasses, *, is_few: bool) -> list[Scored]:
        pod, work = self._pod, self._work

        def score_node(name: str) -> Scored | None:
            node_info = self._fitting(classes, name) if work.spend(pod.node_steps) else None
            return None if node_info is None else (self._score(classes, node_info), node_info)

        sets = (
            [one.mig_layouts for one in classes.classes]
            if is_few
            else [self._view.index.mig_layouts]
        )
        return node_search.best(sets, pod, score_node, work, spread=self._pipeline.spreads)

    def _changed_nodes(self, classes: RankedClasses) -> list[Scored]:
        """Nodes with a placement on top: the index has only their state without it."""
        view, pod = self._view, self._pod
        if not view.changed or not self._work.spend(len(view.changed) * pod.node_steps):
            return []
        return [
            (self._score(classes, node_info), node_info)
            for name, node_info in view.changed.items()
            if view.index.class_of(name) in classes.numbers and not self._rejected(node_info)
        ]

    def _nominated(self) -> NodeInfo | None:
        """The node that the pod is nominated for, if it takes the pod: no other node is compared
        with it (kube-scheduler: evaluateNominatedNode).
        """
        node_info = self._view.at(self._pod.nominated_node)
        if node_info is None or not self._work.spend(self._pod.label_steps + self._pod.node_steps):
            return None
        reasons = first_rejection(self._pod, node_info, self._pipeline.every_filter)
        return None if reasons or first_bound_rejection(node_info, self._bound) else node_info

    def _compared(self) -> list[NodeInfo] | None:
        """The feasible nodes that are compared with each other; None where best fit chooses."""
        view, pod = self._view, self._pod
        if pod.nominated_node and (nominated := self._nominated()) is not None:
            return [nominated]
        if self._pipeline.compares_nodes(view, pod):
            return self._feasible(view.candidates())
        if not self._pipeline.is_balanced(pod):
            return None
        listed = self._listed()
        return self._emptiest() if listed is None else self._feasible(listed)

    def _feasible(self, candidates: Iterable[NodeInfo]) -> list[NodeInfo]:
        if not self._work.spend(self.steps_of_diagnosis()):
            return []
        check = self._checker()
        return [
            node_info
            for node_info in candidates
            if not (check(node_info) or first_bound_rejection(node_info, self._bound))
        ]

    def _emptiest(self) -> list[NodeInfo]:
        """Some feasible nodes of each class with the fewest devices, most free cpu first: the
        best by kube-scheduler's scores is among them where nodes are of one size.
        """
        pod = self._pod
        ranked = self._ranked_classes()
        count = sum(len(classes.classes) for classes in ranked)
        found = [info for classes in ranked for _, info in self._changed_nodes(classes)]
        each = max(1, COMPARED_MAX // max(1, count))
        cpu = pod.requests.get(well_known.CPU, 0) or LEAST
        for classes in ranked:
            for one in classes.classes:
                bucket = one.buckets.get(ANY)
                slots = bucket.fitting(0, cpu, spread=True) if bucket is not None else ()
                fitting = (self._fitting(classes, name) for _, (_, name) in slots if self._spends())
                found += islice((info for info in fitting if info is not None), each)
        return found

    def _spends(self) -> bool:
        return self._work.spend(self._pod.node_steps)

    def _best_compared(self, feasible: list[NodeInfo]) -> NodeInfo | None:
        """The best of nodes that are compared with each other."""
        pipeline, pod = self._pipeline, self._pod
        if not feasible or self._work.is_over:
            return None
        totals = pipeline.normalized_scores(self._view, pod, feasible)
        scored = (
            (pipeline.compared_score(pod, node_info, total), node_info)
            for node_info, total in zip(feasible, totals, strict=True)
        )
        return min(scored, key=lambda one: one[0])[1]

    def _listed(self) -> Iterable[NodeInfo] | None:
        """The candidates where the index is blind, or bound filters let few nodes pass."""
        view, pod = self._view, self._pod
        if len(pod.gpu_requests) > 1 or not self._is_covered():
            return _narrowed(view, pod)
        named = [one.only for one in self._bound if one.only is not None]
        fewest = min(named, key=len, default=None)
        if fewest is None or len(fewest) > ONLY_MAX:
            return None
        every = [view.at(name) for name in sorted(fewest)]
        return [node_info for node_info in every if node_info is not None]


def devices(pod: Pod, node_info: NodeInfo) -> Devices:
    """The devices of a pod without a map on a node where it fits."""
    return assigned(pod, None, node_info, instance_plan.mig_placements(pod, node_info))


def scan(
    candidates: Iterable[NodeInfo],
    pod: Pod,
    work: Budget,
    pipeline: Pipeline,
    bound: Bound = (),
) -> tuple[NodeInfo | None, dict[str, Reasons]]:
    """The best of these nodes, and the reasons of the rejected ones; no best node once ``work`` is
    spent.
    """
    rejected: dict[str, Reasons] = {}
    best: Scored | None = None
    steps = pod.label_steps + pod.node_steps
    for node_info in candidates:
        if not work.spend(steps):
            return None, rejected
        reasons = first_rejection(pod, node_info, pipeline.class_filters)
        if not reasons:
            _count_search(pod, node_info, work)
            reasons = first_rejection(pod, node_info, pipeline.node_filters)
            reasons = reasons or first_bound_rejection(node_info, bound)
        assert node_info.node is not None
        if reasons:
            rejected[node_info.node.name] = reasons
            continue
        score = pipeline.score(pod, node_info, pipeline.soft_penalty(pod, node_info.node))
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


def _narrowed(view: View, pod: Pod) -> Iterable[NodeInfo]:
    """The nodes that match a selector on a label with many values (a host name, for example); else
    all.
    """
    for key, value in pod.node_selector.items():
        found = view.index.with_value(key, value)
        if found is not None:
            return [node_info for name in sorted(found) if (node_info := view.at(name)) is not None]
    return view.candidates()
