"""Pods whose feasible nodes are compared with each other by kube-scheduler's normalized scores.

Two kinds of pods: those with a preference about other pods (a preferred pod affinity term, or one
of a placed pod about them, a ScheduleAnyway constraint); and those that request no GPU. Nodes of
one class with equal values of the labels of such a preference are equally preferred, so only some
of them are compared: those that come first in the order of the index. So a preference by zone costs
no visit to each node; one by host name does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.decide.node_standing import Standings
from scheduler.model import well_known
from scheduler.state.index.capacity_bucket import LEAST
from scheduler.state.index.node_index import ANY, RankedClasses
from scheduler.state.node_info import NodeInfo

#: About so many nodes are compared by kube-scheduler's scores, but at least one of each kind.
COMPARED_MAX: Final = 32
#: With more values of the preferred labels every feasible node is compared.
DOMAINS_MAX: Final = 64

#: The node with a name, if it is of these classes and fits.
Fitting = Callable[[RankedClasses, str], NodeInfo | None]


def are_compared(nodes: FeasibleNodes) -> bool:
    """Whether the pod's nodes are compared with each other instead of searched by best fit."""
    return bool(nodes.compared_labels) or nodes.pipeline.is_balanced(nodes.pod)


def best(nodes: FeasibleNodes) -> NodeInfo | None:
    """The feasible node with the best scores; None if there is none, or the budget is spent."""
    pipeline, pod, view = nodes.pipeline, nodes.pod, nodes.view
    standings = Standings(nodes) if pipeline.is_balanced(pod) else None
    feasible = _feasible(nodes, nodes.fitting if standings is None else standings.fitting)
    if not feasible or nodes.work.is_over:
        return None
    if standings is not None:
        return standings.best(feasible)
    totals = pipeline.normalized_scores(view, pod, feasible)
    scores = nodes.points.tie_score(view, pod), nodes.points.data_nodes(view, pod)
    scored = (
        (pipeline.compared_score(pod, node_info, total, *scores), node_info)
        for node_info, total in zip(feasible, totals, strict=True)
    )
    return min(scored, key=lambda one: one[0])[1]


def _feasible(nodes: FeasibleNodes, fitting: Fitting) -> list[NodeInfo]:
    labels = nodes.compared_labels
    listed = nodes.listed()
    if not labels:
        return _emptiest(nodes, fitting) if listed is None else nodes.among(listed)
    found = _first_of_each_domain(nodes, fitting, labels) if listed is None else None
    return nodes.among(nodes.view.candidates()) if found is None else found


def _first_of_each_domain(
    nodes: FeasibleNodes, fitting: Fitting, labels: frozenset[str]
) -> list[NodeInfo] | None:
    """Some feasible nodes of each class and each combination of values of the labels, in the order
    of the index; None where these are too many, or the index has not every node.
    """
    view, pod = nodes.view, nodes.pod
    domains = view.topology.domain_count(labels)
    if domains > DOMAINS_MAX or view.changed or view.index.mig_layouts.node_layouts:
        return None
    ranked = nodes.ranked_classes()
    count = sum(len(classes.classes) for classes in ranked)
    each = max(1, COMPARED_MAX // max(1, count * domains))
    resource, need = next(iter(pod.gpu_requests.items()), (ANY, 0))
    spread = nodes.pipeline.spreads or nodes.pipeline.is_balanced(pod)
    cpu = pod.requests.get(well_known.CPU, 0) or LEAST
    found: list[NodeInfo] = []
    for classes in ranked:
        fit = partial(fitting, classes)
        for one in classes.classes:
            bucket = one.buckets.get(resource)
            slots = bucket.fitting(need, cpu, spread=spread) if bucket is not None else ()
            names = (name for _, (_, name) in slots)
            found += _some_of_each(nodes, fit, names, labels, each, each * domains)
    return found


def _some_of_each(
    nodes: FeasibleNodes,
    fit: Callable[[str], NodeInfo | None],
    names: Iterable[str],
    labels: frozenset[str],
    each: int,
    most: int,
) -> Iterator[NodeInfo]:
    """The first feasible nodes for each combination of values; ``most`` in all."""
    view, work, steps = nodes.view, nodes.work, nodes.pod.node_steps
    seen: Counter[tuple[str | None, ...]] = Counter()
    for name in names:
        node_info = view.at(name)
        assert node_info is not None, f"{name} is in a bucket and does not exist"
        assert node_info.node is not None
        values = tuple(map(node_info.node.labels.get, labels))
        if seen[values] >= each:
            continue
        if not work.spend(steps):
            return
        if fit(name) is not None:
            yield node_info
            seen[values] += 1
            most -= 1
            if not most:
                return


def _emptiest(nodes: FeasibleNodes, fitting: Fitting) -> list[NodeInfo]:
    """Some feasible nodes of each class with the fewest devices, most free cpu first: the best by
    kube-scheduler's scores is among them where nodes are of one size.

    For a pod with ResourceClaims least free cpu first: where few devices are left, pods are.
    """
    pod = nodes.pod
    ranked = nodes.ranked_classes()
    count = sum(len(classes.classes) for classes in ranked)
    found = [node_info for classes in ranked for node_info in nodes.changed_nodes(classes)]
    each = max(1, COMPARED_MAX // max(1, count))
    cpu = pod.requests.get(well_known.CPU, 0) or LEAST
    work, steps = nodes.work, pod.node_steps
    spread = nodes.pipeline.spreads or not pod.resource_claims
    for classes in ranked:
        for one in classes.classes:
            bucket = one.buckets.get(ANY)
            slots = bucket.fitting(0, cpu, spread=spread) if bucket is not None else ()
            found_here = (fitting(classes, name) for _, (_, name) in slots if work.spend(steps))
            found += islice((info for info in found_here if info is not None), each)
    return found
