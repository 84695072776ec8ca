"""Schedules one pod: its node and devices, or the reasons why no node fits.

No I/O, no clock, no randomness. The structure follows ``schedule_one.go`` of kube-scheduler. The
loop, the webhook's answers, the simulator, replay and the benchmarks all call ``schedule_one``.
"""

from __future__ import annotations

from scheduler.decide import best_fit
from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.decide.impossible_request import impossible_in_cluster, impossible_on_node
from scheduler.decide.post_filter import post_filter
from scheduler.decide.topology.near_family import regions_near_family
from scheduler.decide.view import beside_nominated
from scheduler.framework.budget import TERM_STEPS, Budget
from scheduler.framework.decision import Decision, Placement, Rejection
from scheduler.framework.pipeline import (
    Pipeline,
    PreFiltered,
    first_bound_rejection,
    first_entry_rejection,
    first_rejection,
)
from scheduler.framework.plugin import (
    Bound,
    BoundFilter,
    ChosenNode,
    NamedNodes,
    Reasons,
    Refuse,
    RefusedNode,
    ReserveContext,
)
from scheduler.framework.reason_codes import NO_NODES_HERE, TOO_COMPLEX
from scheduler.framework.view import View
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis, ImpossibleRequest, Reason
from scheduler.plugins.topology.plugin import within
from scheduler.state.cache.cluster import Cluster
from scheduler.state.index.filter_cache import SameEverywhere
from scheduler.state.node_info import NodeInfo


def schedule_one(
    view: View,
    pod: Pod,
    pipeline: Pipeline,
    work: Budget | None = None,
    only: BoundFilter | None = None,
) -> Decision:
    """Decide one pod; ``work`` counts the steps. ``only`` leaves it some of the nodes."""
    work = work or Budget(pipeline.decision_steps_max)
    if not pod.is_plain and pod.topology is not None and only is None:
        near = _near_family(view, pod, pipeline, work)
        if near is not None:
            return near
    decision = _find_node(view, pod, pipeline, work, only)
    # A decision on a what-if view preempts nothing.
    if isinstance(decision, Rejection) and isinstance(view, Cluster):
        return post_filter(view, pipeline, decision, work)
    return decision


def _near_family(view: View, pod: Pod, pipeline: Pipeline, work: Budget) -> Placement | None:
    """The best node in the domains of the pods that it has to be near."""
    beside, filtered = pre_filter(view, pod, pipeline)
    if isinstance(filtered, Refuse) or filtered.named is not None:
        return None
    nodes = FeasibleNodes(beside, pod, pipeline, work, filtered.bound)
    for region in regions_near_family(nodes):
        placement = place(view, pod, pipeline, work, within(region))
        if placement is not None:
            return placement
    return None


def _find_node(
    view: View, pod: Pod, pipeline: Pipeline, work: Budget, only: BoundFilter | None
) -> Placement | Rejection:
    """PreFilter, Filter, Score and Reserve."""
    if pod.has_terms and not work.spend(TERM_STEPS * pod.term_count):
        return _too_complex(view, pod, work, work.spent)
    view, filtered = pre_filter(view, pod, pipeline)
    if isinstance(filtered, Refuse):
        if pod.map_text is not None:
            work.spend(pod.label_steps + pod.node_steps)  # reading the map took steps
        return _refused(view, pod, filtered)
    bound = filtered.bound if only is None else (only, *filtered.bound)
    if filtered.named is not None:
        return _at_named_node(view, pod, pipeline, filtered.named, bound, work)
    return _at_best_node(view, pod, pipeline, bound, work)


def pre_filter(view: View, pod: Pod, pipeline: Pipeline) -> tuple[View, Refuse | PreFiltered]:
    """The view with the pods that are nominated beside the pod, and PreFilter there.

    The pod's own terms must hold without these pods as well: one that is nominated may never come
    (``pkg/scheduler/framework/runtime`` RunFilterPluginsWithNominatedPods asks twice).
    """
    beside = beside_nominated(view, pod) if view.nominated else view
    filtered = pipeline.pre_filter(beside, pod)
    if beside is view or not pod.has_terms or isinstance(filtered, Refuse):
        return beside, filtered
    without = pipeline.pre_filter(view, pod)
    if isinstance(without, Refuse):
        return beside, without
    return beside, PreFiltered(filtered.named, without.bound + filtered.bound)


def place(
    view: View,
    pod: Pod,
    pipeline: Pipeline,
    work: Budget | None = None,
    only: BoundFilter | None = None,
) -> Placement | None:
    """The same for a caller that does not need the reasons: a rejection costs no diagnosis."""
    work = work or Budget(pipeline.decision_steps_max)
    if pod.has_terms and not work.spend(TERM_STEPS * pod.term_count):
        return None
    view, filtered = pre_filter(view, pod, pipeline)
    if isinstance(filtered, Refuse):
        return None
    bound = filtered.bound if only is None else (only, *filtered.bound)
    if filtered.named is not None:
        decision = _at_named_node(view, pod, pipeline, filtered.named, bound, work)
        return decision if isinstance(decision, Placement) else None
    nodes = FeasibleNodes(view, pod, pipeline, work, bound)
    if nodes.was_infeasible() and nodes.is_infeasible():
        return None
    node_info = best_fit.Search(nodes).best_node()
    if node_info is None:
        return None
    reserved = pipeline.reserve(pod, ReserveContext(view, pipeline, node_info))
    return reserved if isinstance(reserved, Placement) else None


def _at_named_node(
    view: View,
    pod: Pod,
    pipeline: Pipeline,
    named: NamedNodes,
    bound: Bound,
    work: Budget,
) -> Placement | Rejection:
    """A plugin names the pod's nodes: the first one that passes every filter is chosen."""
    steps = pod.label_steps + pod.node_steps
    results: dict[str, Reasons] = {}

    def check(node_info: NodeInfo, entry: MapEntry | None = None) -> Reasons | None:
        assert node_info.node is not None
        if entry is not None:
            return first_entry_rejection(node_info, entry, bound)
        name = node_info.node.name
        if name not in results:
            if not work.spend(steps):
                return None
            reasons = first_rejection(pod, node_info, pipeline.points(pod).filters)
            results[name] = reasons or first_bound_rejection(node_info, bound)
        return results[name]

    choice = named.choose(check, work)
    match choice:
        case ChosenNode(node_info, entry):
            reserved = pipeline.reserve(pod, ReserveContext(view, pipeline, node_info, entry))
            return reserved if isinstance(reserved, Placement) else _refused(view, pod, reserved)
        case RefusedNode(node_name, reasons):
            elsewhere = view.filter_results.of(named.elsewhere, SameEverywhere(named.elsewhere))
            refused = view.at(node_name)
            assert refused is not None
            assert refused.node is not None
            impossible = impossible_on_node(pod, refused.node)
            return _rejected(pod, elsewhere.diagnosis({node_name: reasons}), impossible, node_name)
        case Refuse():
            return _refused(view, pod, choice)
    return _too_complex(view, pod, work, steps)


def _at_best_node(
    view: View, pod: Pod, pipeline: Pipeline, bound: Bound, work: Budget
) -> Placement | Rejection:
    """Every node is a candidate: the best node from the index, or the reasons of every node."""
    if not len(view.nodes):
        return _refused(view, pod, Refuse(NO_NODES_HERE))
    nodes = FeasibleNodes(view, pod, pipeline, work, bound)
    before = work.spent
    # A class that was just rejected is probably rejected again: few nodes changed since.
    if nodes.was_infeasible():
        rejection = _diagnosed(nodes, before)
        if rejection is not None:
            return rejection
    node_info = best_fit.Search(nodes).best_node()
    if node_info is not None:
        reserved = pipeline.reserve(pod, ReserveContext(view, pipeline, node_info))
        return reserved if isinstance(reserved, Placement) else _refused(view, pod, reserved)
    # No node fits, or the budget was spent before one was found.
    rejection = _diagnosed(nodes, before)
    return rejection or _too_complex(view, pod, work, nodes.steps_of_diagnosis())


def _diagnosed(nodes: FeasibleNodes, before: int) -> Rejection | None:
    """The reasons of every node; None if one fits, or if the computation exceeds the budget.

    The limit uses the steps ``before`` the decision. So the answer does not depend on cached
    results.
    """
    steps = nodes.steps_of_diagnosis()
    diagnosis = nodes.diagnosis() if before + steps <= nodes.work.limit else None
    if diagnosis is None:
        return None
    nodes.work.spend(steps)
    impossible = impossible_in_cluster(nodes.pod, nodes.view.nodes.offers)
    return _rejected(nodes.pod, diagnosis, impossible)


def _refused(view: View, pod: Pod, refuse: Refuse) -> Rejection:
    """Reject the pod independently of the nodes."""
    diagnosis = Diagnosis(total=len(view.nodes), general=refuse.reason, behind=refuse.behind)
    return Rejection(pod=pod, diagnosis=diagnosis, candidates=refuse.candidates)


def _rejected(
    pod: Pod, diagnosis: Diagnosis | None, impossible: ImpossibleRequest | None, node_name: str = ""
) -> Rejection:
    assert diagnosis is not None, f"the index missed a node for {pod.key}"
    if impossible is not None:
        diagnosis = diagnosis.with_impossible(impossible)
    return Rejection(pod=pod, diagnosis=diagnosis, node_name=node_name)


def _too_complex(view: View, pod: Pod, work: Budget, steps: int) -> Rejection:
    """A rejection with the steps counted and allowed; independent of cached results."""
    counted = str(steps) if steps > work.limit else f"more than {work.limit}"
    reason = Reason(
        code=TOO_COMPLEX,
        text=f"TooComplex: to compare the pod's selectors, terms, tolerations and requests"
        f" with {len(view.nodes)} nodes takes {counted} steps and one decision may take"
        f" {work.limit}; name fewer labels and values or ask for fewer MIG instances in one pod",
        resolvable=False,
    )
    return _refused(view, pod, Refuse(reason))
