"""PostFilter: what the plugins make of a rejection, with single nodes to try things out on.

kube-scheduler does so in ``schedule_one.go`` (RunPostFilterPlugins). It has a budget of its own, as
large as a decision's: what the search for a node cost does not change which pods are preempted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from scheduler.decide.teams.reclaim import reclaim
from scheduler.decide.view import WhatIfView, stronger
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement, Preemption, Rejection
from scheduler.framework.pipeline import (
    EVERY_NODE,
    Pipeline,
    PreFiltered,
    first_bound_rejection,
    first_entry_rejection,
    first_rejection,
)
from scheduler.framework.plugin import (
    FITS,
    Choice,
    ChosenNode,
    PostFilterContext,
    Reasons,
    Refuse,
    RefusedNode,
    ReserveContext,
    TrialKey,
)
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import NodeInfo

#: What it takes to copy a node's books, in steps of one check.
COPY_STEPS = 8


def post_filter(
    cluster: Cluster, pipeline: Pipeline, rejection: Rejection, work: Budget
) -> Rejection:
    """The rejection as PostFilter leaves it; a ``Preemption`` where pods can make room."""
    if not pipeline.has_post_filter:
        return rejection
    context = context_of(cluster, pipeline, rejection, work.limit)
    answer = pipeline.post_filter(context)
    work.spend(context.work.spent)
    if cluster.teams.table is None or isinstance(answer, Preemption):
        return answer
    own = context_of(cluster, pipeline, rejection, work.limit)
    answer = reclaim(own, answer)
    work.spend(own.work.spent)
    return answer


def context_of(
    cluster: Cluster, pipeline: Pipeline, rejection: Rejection, limit: int
) -> PostFilterContext:
    """What PostFilter gets; it may spend as many steps as the limit."""
    pod, own = rejection.pod, Budget(limit)
    nominated = cluster.nominated.get(pod.uid)
    name = nominated.nominated_node if nominated is not None else ""
    trials = _Trials(cluster, pod, pipeline, own)
    return PostFilterContext(
        view=cluster,
        settings=pipeline,
        rejection=rejection,
        nominated_node=name if name and cluster.at(name) is not None else "",
        trial=trials.on,
        trial_key=trials.key,
        work=own,
    )


class _Trials:
    """The trials of one decision; what they have in common is looked up once."""

    def __init__(self, cluster: Cluster, pod: Pod, pipeline: Pipeline, work: Budget) -> None:
        self._cluster, self._pod, self._pipeline, self._work = cluster, pod, pipeline, work

    def on(self, node_name: str) -> NodeTrial:
        """A node as it is, with the stronger pods that are nominated for it."""
        beside = self._beside.get(node_name, ())
        filtered = self._unfiltered if not beside else None
        return NodeTrial(
            self._cluster, self._pod, self._pipeline, node_name, beside, self._work, filtered
        )

    def key(self, node_name: str) -> TrialKey | None:
        """What the answers of a trial depend on beside the node; None where it is too much: pods
        that are nominated for the node, or what PreFilter says about the cluster."""
        filtered = self._filtered
        if isinstance(filtered, Refuse) or filtered.named is not None or node_name in self._beside:
            return None
        if not filtered.bound:
            return self._of_pod
        node_info = self._cluster.at(node_name)
        assert node_info is not None, f"{node_name} does not exist"
        keys = [one.trial_key and one.trial_key(node_info) for one in filtered.bound]
        known = [one for one in keys if one is not None]
        if len(known) < len(keys):
            return None
        of_pod = (self._of_pod.of_pod, *[one.of_pod for one in known])
        return TrialKey(of_pod, [one.at_node for one in known])

    @cached_property
    def _of_pod(self) -> TrialKey:
        pod = self._pod
        kind, mode = self._pipeline.equivalence_class(pod), self._pipeline.preemption
        return TrialKey((kind, pod.priority, pod.namespace, mode))

    @cached_property
    def _beside(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for one in stronger(self._cluster.nominations, self._pod):
            found.setdefault(one.nominated_node, []).append(one)
        return found

    @property
    def _unfiltered(self) -> PreFiltered | None:
        """PreFilter's answer where it says nothing about the cluster as it is: it says nothing
        without some pods either. None where it is to be asked about each trial."""
        return EVERY_NODE if self._filtered is EVERY_NODE else None

    @cached_property
    def _filtered(self) -> Refuse | PreFiltered:
        """PreFilter's answer about the cluster as it is."""
        return self._pipeline.pre_filter(self._cluster, self._pod)


class NodeTrial:
    """One node with pods taken off (``framework.plugin.Trial``); stronger nominated pods hold it.

    Every filter is asked again after each change, PreFilter included: the pods of the node count in
    its topology domains. The class filters read no pods, so they are asked once.
    """

    def __init__(
        self,
        cluster: Cluster,
        pod: Pod,
        pipeline: Pipeline,
        node_name: str,
        beside: Iterable[Pod],
        work: Budget,
        filtered: PreFiltered | None = None,
    ) -> None:
        self._pod = pod
        self._pipeline = pipeline
        self._node_name = node_name
        self._work = work
        self._view = WhatIfView(cluster)
        self._view.hold(beside)
        if cluster.dra.may_serve(pod):
            self._view.follow_claims(pod, node_name)
        self._filtered = filtered
        self._filters = pipeline.points(pod).filters
        self._chosen: ChosenNode | None = None
        work.spend(COPY_STEPS)

    def remove(self, uid: str) -> None:
        """Take a pod off the node."""
        self._work.spend(1)
        self._view.remove(uid, self._node_name)

    def put_back(self, uid: str) -> None:
        """Enter a pod again that was removed."""
        self._view.put_back(uid)

    def reasons(self) -> Reasons | None:
        """Why the node does not take the pod now; None where the budget is spent."""
        self._chosen = None
        pod, pipeline, view = self._pod, self._pipeline, self._view
        if not self._work.spend(pod.label_steps + pod.node_steps):
            return None
        view.free_claims()
        filtered = self._filtered or pipeline.pre_filter(view, pod)
        if isinstance(filtered, Refuse):
            return (filtered.reason, *filtered.behind)
        own = view.at(self._node_name)
        assert own is not None, f"{self._node_name} does not exist"

        def ask(node_info: NodeInfo, entry: MapEntry | None = None) -> Reasons:
            if entry is not None:
                return first_entry_rejection(node_info, entry, filtered.bound)
            is_own = node_info is own
            filters = self._filters if is_own else pipeline.points(pod).filters
            reasons = first_rejection(pod, node_info, filters)
            if is_own and not reasons:
                self._filters = pipeline.points(pod).node_filters
            return reasons or first_bound_rejection(node_info, filtered.bound)

        choice = (
            _judge(own, ask(own))
            if filtered.named is None
            else filtered.named.choose(ask, self._work)
        )
        for one in filtered.bound:
            if one.work is not None and not self._work.spend(one.work.spent):
                return None
        if isinstance(choice, ChosenNode):
            if choice.node_info is not own:
                return filtered.named.elsewhere if filtered.named is not None else FITS
            self._chosen = choice
            return FITS
        return _against(choice)

    def reserve(self) -> Placement | Refuse:
        """What the pod would get; the last ``reasons`` must have been none."""
        assert self._chosen is not None, "the node has a reason against the pod"
        chosen = self._chosen
        context = ReserveContext(self._view, self._pipeline, chosen.node_info, chosen.entry)
        return self._pipeline.reserve(self._pod, context)


def _against(choice: RefusedNode | Refuse | None) -> Reasons | None:
    match choice:
        case RefusedNode(_, reasons):
            return reasons
        case Refuse(reason, behind):
            return (reason, *behind)
    return None  # it takes too many steps to find out


def _judge(node_info: NodeInfo, reasons: Reasons) -> Choice:
    assert node_info.node is not None
    return RefusedNode(node_info.node.name, reasons) if reasons else ChosenNode(node_info)
