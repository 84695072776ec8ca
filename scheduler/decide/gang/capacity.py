"""Whether a gang has too few places by totals: a sum over the nodes instead of a plan.

For each equivalence class of members a table says how many more of them each node takes, and what
it says to one more. A node is looked at again only after a change. The sum is never too small, so a
gang is refused only where its plan would fail too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from scheduler.decide.gang.need import Need
from scheduler.decide.gang.rank import class_of, largest_first, required_first
from scheduler.decide.impossible_request import impossible_in_cluster
from scheduler.framework.budget import Budget, is_light
from scheduler.framework.decision import Rejection
from scheduler.framework.pipeline import Pipeline, first_rejection
from scheduler.framework.plugin import Reasons
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.plugins.node_resources_fit import places_on
from scheduler.state.cache.cluster import Cluster


class Shortage(msgspec.Struct, frozen=True):
    """At most ``placed`` of the members that are placed together fit; ``rejection`` is of the
    first one that does not.
    """

    placed: int
    rejection: Rejection


class _Places(msgspec.Struct, frozen=True):
    """How many more members of a class a node takes, and what it says to one more."""

    count: int
    reasons: Reasons


def shortage(
    cluster: Cluster, waiting: Sequence[Pod], need: Need, pipeline: Pipeline, work: Budget
) -> Shortage | None:
    """Why the gang does not fit by totals; None if it may fit, or where totals say nothing: of
    nominated pods, and of members that need more than free resources.
    """
    if cluster.nominated or not len(cluster.nodes):
        return None
    left: dict[Hashable, int] = {}
    placed: list[Pod] = []
    refused: list[Pod] = []
    for pod in required_first(largest_first(waiting), need.roles):
        kind = class_of(cluster, pod, pipeline)
        if kind is None:
            return None
        if kind not in left:
            count = _count(cluster, kind, pod, pipeline, work)
            if count is None:
                return None
            left[kind] = count
        if left[kind] > 0:
            left[kind] -= 1
            placed.append(pod)
        else:
            refused.append(pod)
    met = need.met_by(placed)
    if not refused or met >= need.count:
        return None
    first = need.first_short(placed, refused, lambda pod: pod)
    return Shortage(met, Rejection(pod=first, diagnosis=_diagnosis(cluster, first, pipeline)))


def _count(
    cluster: Cluster, kind: Hashable, pod: Pod, pipeline: Pipeline, work: Budget
) -> int | None:
    """The places of a class; None where a node does not say."""
    if not (pod.is_plain and is_light(pod)) or pod.host_ports:
        return None
    steps = (len(cluster.nodes)) * (pod.label_steps + pod.node_steps)
    if work.spent + steps > work.limit or not work.spend(steps):
        return None
    answers = cluster.nodes.memo.of(("places", pipeline.equivalence_class(pod)))
    total = 0
    for node_info in cluster.candidates():
        assert node_info.node is not None
        name = node_info.node.name
        known = answers.get(name)
        if not isinstance(known, _Places):
            reasons = first_rejection(pod, node_info, pipeline.points(pod).filters)
            found = (0, reasons) if reasons else places_on(pod, node_info)
            if found is None:
                return None
            known = _Places(*found)
            answers.keep(name, known)
        total += known.count
    return total


def _diagnosis(cluster: Cluster, pod: Pod, pipeline: Pipeline) -> Diagnosis:
    """What every node says to one more member, as behind a plan that filled them."""
    kind, generation = pipeline.equivalence_class(pod), cluster.filter_results.generation
    kept = cluster.filter_results.rejection(("places", kind), generation)
    if kept is not None:
        return kept
    answers = cluster.nodes.memo.of(("places", kind))
    nodes: dict[str, Reasons] = {}
    for node_info in cluster.candidates():
        assert node_info.node is not None
        known = answers.get(node_info.node.name)
        assert isinstance(known, _Places), "every node was counted"
        nodes[node_info.node.name] = known.reasons
    diagnosis = Diagnosis(total=len(nodes), nodes=nodes)
    impossible = impossible_in_cluster(pod, cluster.nodes.offers)
    if impossible is not None:
        diagnosis = diagnosis.with_impossible(impossible)
    cluster.filter_results.keep_rejection(("places", kind), generation, diagnosis)
    return diagnosis
