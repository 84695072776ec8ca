"""The nodes that pass the filters for one pod, and the reasons of all nodes if none does.

Class filters run once per node class of the index, node filters per node, bound filters last.
``best_fit`` and ``compared_nodes`` choose among the feasible nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final

from scheduler.decide.view import HELD, HeldNode, WhatIfView
from scheduler.framework.budget import LIGHT_MAX, Budget, is_light
from scheduler.framework.extension_points import ExtensionPoints
from scheduler.framework.fitting_copies import FittingCopies
from scheduler.framework.pipeline import (
    Pipeline,
    first_bound_rejection,
    first_rejection,
)
from scheduler.framework.plugin import Bound, Reasons
from scheduler.framework.view import View
from scheduler.model.cached import cached
from scheduler.model.crd.migration import awaited_node
from scheduler.model.mig import layout
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.index.filter_cache import Answers, Check
from scheduler.state.index.node_index import NodeClass, NodeIndex, RankedClasses
from scheduler.state.index.node_memo import NodeAnswers
from scheduler.state.node_info import NodeInfo

#: Up to so many nodes that alone can pass are scanned instead of searched for.
ONLY_MAX: Final = 256


class FeasibleNodes:
    """The filters of one pod on the nodes of a view; ``work`` counts the steps."""

    def __init__(
        self, view: View, pod: Pod, pipeline: Pipeline, work: Budget, bound: Bound = ()
    ) -> None:
        self.view = view
        self.pod = pod
        self.pipeline = pipeline
        self.work = work
        self.bound = bound
        self.points = pipeline.points(pod)
        self.equivalence_class = pipeline.equivalence_class(pod)
        #: Whether the classes of the index are sufficient for the pod's labels and taints.
        self._is_covered = not pod.names_nodes and view.index.covers(
            pod.label_keys | pipeline.node_labels if pipeline.node_labels else pod.label_keys
        )
        self._rejection_keys = self._keys_of_rejection() if bound else None

    @cached
    def compared_labels(self) -> frozenset[str]:
        """The labels by whose values the pod's nodes are compared with each other."""
        return self.pipeline.compared_labels(self.view, self.pod)

    # --- the reasons of every node -----------------------------------------------------------

    def was_infeasible(self) -> bool:
        """Whether every node rejected the pod's class at its last check."""
        if self._rejection_keys is not None and self._kept_rejection() is not None:
            return True
        return self.view.filter_results.was_infeasible(self.equivalence_class)

    def is_infeasible(self) -> bool:
        """Whether every node rejects the pod, even without the placements that are tried out, and
        without the pods that are removed.
        """
        if self._kept_rejection() is not None:
            return True
        if not self.view.filter_results.of(self.equivalence_class, self._check).is_infeasible:
            return False
        freed = self.view.freed_nodes if isinstance(self.view, WhatIfView) else ()
        return all(self._of_changed(name) for name in freed)

    def diagnosis(self) -> Diagnosis | None:
        """The reasons of every node, or None if one node fits."""
        if (kept := self._kept_rejection()) is not None:
            return kept
        check, filter_results = self._check, self.view.filter_results
        results = (
            filter_results.of(self.equivalence_class, check)
            if is_light(self.pod)
            else filter_results.uncached(check)
        )
        answers = {name: self._of_changed(name) for name in self.view.changed}
        if self.bound:
            for name in (*results.feasible(), *answers):
                node_info = self.view.at(name)
                assert node_info is not None
                answers[name] = answers.get(name) or first_bound_rejection(node_info, self.bound)
        diagnosis = results.diagnosis(answers)
        if diagnosis is not None and self._rejection_keys is not None:
            filter_results.keep_rejection(*self._rejection_keys, diagnosis)
        return diagnosis

    def _kept_rejection(self) -> Diagnosis | None:
        """The diagnosis of equal pods on the same state, where bound filters took part."""
        keys = self._rejection_keys
        return None if keys is None else self.view.filter_results.rejection(*keys)

    def _keys_of_rejection(self) -> tuple[Hashable, Hashable] | None:
        """What a rejection by bound filters depends on: of the pod, and of the state; None if it is
        not kept."""
        if self.view.changed or not is_light(self.pod):
            return None
        generations = [one.generation for one in self.bound]
        if None in generations:
            return None
        pods = (self.equivalence_class, self.view.topology.terms_key(self.pod))
        return pods, (self.view.filter_results.generation, *generations)

    def steps_of_diagnosis(self) -> int:
        """The steps needed to compute every node's reasons, or any number above the budget."""
        view, pod = self.view, self.pod
        nodes = len(view.nodes) + len(view.changed)
        if self._is_covered:
            steps = len(view.index.classes) * pod.label_steps + nodes * pod.node_steps
        else:
            steps = nodes * (pod.label_steps + pod.node_steps)
        node_layouts = view.index.mig_layouts.node_layouts
        if node_layouts and len(profiles := instance_search.wanted(pod)) > 1:
            for one in node_layouts:
                if steps > self.work.limit:
                    break
                gpu_model = layout.GPU_MODELS[one.gpu_model]
                steps += instance_search.search_jointly(gpu_model, one.layouts, profiles).steps
        return steps

    # --- candidates --------------------------------------------------------------------------

    def ranked_classes(self) -> tuple[RankedClasses, ...]:
        """The classes that the pod may use; cached for pods with few constraints only."""
        index = self.view.index
        if self.pod.label_steps > LIGHT_MAX:
            return self._sort(index.classes.values())
        return index.ranked_classes(self.pipeline.constraints(self.pod), self._sort)

    def listed(self) -> Iterable[NodeInfo] | None:
        """The candidates where the index is blind, or bound filters let few nodes pass."""
        view, pod = self.view, self.pod
        if len(pod.gpu_requests) > 1 or not self._is_covered:
            return _narrowed(view, pod)
        if not self.bound:
            return None
        named = [one.only for one in self.bound if one.only is not None]
        fewest = min(named, key=len, default=None)
        if fewest is None or len(fewest) > ONLY_MAX:
            return None
        every = [view.at(name) for name in sorted(fewest)]
        return [node_info for node_info in every if node_info is not None]

    def fitting(self, classes: RankedClasses, name: str) -> NodeInfo | None:
        """The node that the index returned, if it fits and has no placement on top."""
        view = self.view
        if name in view.changed or view.index.class_numbers[name] not in classes.numbers:
            return None
        node_info = view.at(name)
        assert node_info is not None, f"{name} is in a bucket and does not exist"
        # A node from the index has enough free resources, so a bound filter rejects it sooner.
        if self.bound and first_bound_rejection(node_info, self.bound):
            return None
        return None if first_rejection(self.pod, node_info, self.points.node_filters) else node_info

    def changed_nodes(self, classes: RankedClasses) -> list[NodeInfo]:
        """The feasible nodes with a placement on top: the index has only their state without it."""
        view = self.view
        if not view.changed or not self.work.spend(len(view.changed) * self.pod.node_steps):
            return []
        numbers, copies = view.index.class_numbers, self.copies
        if copies is None:
            names = [name for name in view.changed if numbers[name] in classes.numbers]
            found = [view.changed[name] for name in names if not self._of_changed(name)]
        else:
            for name in [one for one in copies.unchecked if numbers[one] in classes.numbers]:
                copies.check(name, view.changed[name], fits=not self._of_changed(name))
            fitting = copies.fitting.items()
            found = [info for name, info in fitting if numbers[name] in classes.numbers]
        if not self.bound:
            return found
        return [one for one in found if not first_bound_rejection(one, self.bound)]

    def among(self, candidates: Iterable[NodeInfo]) -> list[NodeInfo]:
        """The feasible ones of these nodes; none once the budget is spent."""
        if not self.work.spend(self.steps_of_diagnosis()):
            return []
        check = self._check
        return [
            node_info
            for node_info in candidates
            if not (check.at(node_info) or first_bound_rejection(node_info, self.bound))
        ]

    def every(self) -> dict[str, NodeInfo]:
        """All feasible nodes by name; none once the budget is spent."""
        if not self.work.spend(self.steps_of_diagnosis()):
            return {}
        cache, view = self.view.filter_results, self.view
        results = (
            cache.of(self.equivalence_class, self._check)
            if is_light(self.pod)
            else cache.uncached(self._check)
        )
        names = [name for name in results.feasible() if name not in view.changed]
        names += [name for name in view.changed if not self._of_changed(name)]
        found = ((name, view.at(name)) for name in names)
        return {
            name: node_info
            for name, node_info in found
            if node_info is not None and not first_bound_rejection(node_info, self.bound)
        }

    def nominated(self) -> NodeInfo | None:
        """The node that the pod is nominated for, if it takes the pod: no other node is compared
        with it (kube-scheduler: evaluateNominatedNode). For a pod with claims it is also the node
        where a migration holds devices for it.
        """
        name = self.pod.nominated_node
        if not name and self.pod.resource_claims and self.view.nominated:
            name = awaited_node(self.view.nominated, self.pod)
        node_info = self.view.at(name) if name else None
        if node_info is None or not self.work.spend(self.pod.label_steps + self.pod.node_steps):
            return None
        reasons = first_rejection(self.pod, node_info, self.points.filters)
        return None if reasons or first_bound_rejection(node_info, self.bound) else node_info

    @cached
    def copies(self) -> FittingCopies | None:
        """What pods of this class find at the nodes with a placement on top, if it is kept."""
        if self._held is None or not isinstance(self.view, WhatIfView):
            return None
        return self.view.fitting_copies(self.equivalence_class)

    # --- filters -----------------------------------------------------------------------------

    def _of_changed(self, name: str) -> Reasons:
        """What the filters say of a node with a placement on top: copies of nodes with nominated
        pods are shared between decisions, and so are the answers about them."""
        node_info = self.view.changed[name]
        held = self._held.get(name) if self._held is not None else None
        if not isinstance(held, HeldNode) or held.node_info is not node_info:
            return self._check.at(node_info)
        reasons = held.reasons.get(self.equivalence_class)
        if reasons is None:
            reasons = self._check.at(node_info)
            held.keep(self.equivalence_class, reasons)
        return reasons

    @cached
    def _held(self) -> NodeAnswers | None:
        is_of_class = self.pod.map_text is None and is_light(self.pod)
        return self.view.nodes.memo.of(HELD) if is_of_class else None

    @cached
    def _check(self) -> Check:
        return _Check(self.pod, self.points, self.view.index if self._is_covered else None)

    def _sort(self, classes: Iterable[NodeClass]) -> tuple[RankedClasses, ...]:
        """The classes that pass the class filters, smallest soft penalty first."""
        pod, pipeline = self.pod, self.pipeline
        by_penalty: dict[int, list[NodeClass]] = {}
        for one in classes:
            if not first_rejection(pod, one.sample, self.points.class_filters):
                assert one.sample.node is not None
                penalty = pipeline.soft_penalty(pod, one.sample.node)
                by_penalty.setdefault(penalty, []).append(one)
        return tuple(
            RankedClasses(penalty, tuple(equal), frozenset(one.number for one in equal))
            for penalty, equal in sorted(by_penalty.items())
        )


class _Check:
    """The filters of one pod; the class filters run once per class where the index ``covers``."""

    def __init__(self, pod: Pod, points: ExtensionPoints, covers: NodeIndex | None) -> None:
        self._pod = pod
        self._points = points
        self._index = covers
        self._of_class: dict[int, Reasons] = {}

    def at(self, node_info: NodeInfo) -> Reasons:
        """The reasons of one node."""
        if self._index is None:
            return first_rejection(self._pod, node_info, self._points.filters)
        assert node_info.node is not None
        number = self._index.class_numbers[node_info.node.name]
        reasons = self._of_class.get(number)
        if reasons is None:
            reasons = first_rejection(self._pod, node_info, self._points.class_filters)
            self._of_class[number] = reasons
        return reasons or first_rejection(self._pod, node_info, self._points.node_filters)

    def everywhere(self, node_infos: Mapping[str, NodeInfo]) -> Answers:
        """The reasons of all nodes; a node whose class is rejected takes two look-ups."""
        if self._index is None:
            return Answers.of_each(self, node_infos)
        pod, points, numbers = self._pod, self._points, self._index.class_numbers
        of_class: dict[int, Reasons] = {}
        counts: list[tuple[Reasons, int]] = []
        passed: set[int] = set()
        for one in self._index.classes.values():
            reasons = first_rejection(pod, one.sample, points.class_filters)
            of_class[one.number] = reasons
            if reasons:
                counts.append((reasons, one.size))
            else:
                passed.add(one.number)
        by_node = {name: of_class[number] for name, number in numbers.items()}
        if passed:
            for name in [name for name, number in numbers.items() if number in passed]:
                reasons = first_rejection(pod, node_infos[name], points.node_filters)
                by_node[name] = reasons
                counts.append((reasons, 1))
        return Answers(by_node, counts)


def _narrowed(view: View, pod: Pod) -> Iterable[NodeInfo]:
    """The nodes that match a selector on a label with many values (a host name, for example); else
    all.
    """
    for key, value in pod.node_selector.items():
        found = view.index.with_value(key, value)
        if found is not None:
            return [node_info for name in sorted(found) if (node_info := view.at(name)) is not None]
    return view.candidates()
