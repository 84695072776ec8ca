"""The registered plugins, composed once into tuples of plain functions.

The loop, the simulator, admission, what-if views and replay all decide through one Pipeline
(``decide/schedule_one``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

import msgspec

from scheduler.framework.decision import PendingPlacement, Placement, PreBindStep, Rejection
from scheduler.framework.extension_points import ExtensionPoints, TieScore
from scheduler.framework.plugin import (
    FITS,
    Bound,
    BoundFilter,
    Check,
    ComparesNodes,
    DataNodes,
    NamedNodes,
    NodeKey,
    NormalizedScore,
    Plugin,
    PostFilter,
    PostFilterContext,
    PostFilterHint,
    Reasons,
    Refuse,
    ReserveContext,
    SoftPenalty,
)
from scheduler.framework.pod_reads import IN_EQUIVALENCE_CLASS, PodRead
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.node_info import NodeInfo


class PreFiltered(msgspec.Struct, frozen=True):
    """What PreFilter leaves to the search: the nodes that a plugin names, and bound filters."""

    named: NamedNodes | None = None
    bound: Bound = ()


#: What PreFilter leaves of most pods.
EVERY_NODE = PreFiltered()

#: The sort key of a feasible node: soft penalties, each plugin's key, the pod's data if it has any,
#: each plugin's late key, the tie break, the name. Smaller is better.
Score = tuple[int, tuple[tuple[float, ...], ...], int, str]


class Pipeline(Settings, frozen=True, kw_only=True, dict=True):
    """Settings and plugins; the order of the plugins applies to every extension point."""

    plugins: tuple[Plugin, ...]

    def __post_init__(self) -> None:
        for name, attribute in vars(Pipeline).items():
            if isinstance(attribute, cached_property):
                getattr(self, name)  # composed now, not at the first decision

    @property
    def settings(self) -> Settings:
        """The settings alone, in a serializable form."""
        return Settings(**{name: getattr(self, name) for name in Settings.__struct_fields__})

    @cached_property
    def spreads(self) -> bool:
        """Whether the score prefers the emptiest node instead of the fullest."""
        return self.placement == "spread"

    def points(self, pod: Pod) -> ExtensionPoints:
        """What the plugins say about pods like this one."""
        return self._points_of_plain if pod.is_plain else self._points

    @cached_property
    def _points(self) -> ExtensionPoints:
        return ExtensionPoints.of(self.plugins)

    @cached_property
    def _points_of_plain(self) -> ExtensionPoints:
        return ExtensionPoints.of([one for one in self.plugins if not one.skips_plain])

    def pre_filter(self, view: View, pod: Pod) -> Refuse | PreFiltered:
        """Reject the pod before any node is checked, or name its nodes and bind filters."""
        named: NamedNodes | None = None
        bound: Bound = ()
        for check in self.points(pod).pre_filters:
            answer = check(view, pod, self)
            if answer is None:
                continue
            if isinstance(answer, Refuse):
                return answer
            if isinstance(answer, BoundFilter):
                bound += (answer,)
            else:
                named = answer
        return PreFiltered(named, bound) if named is not None or bound else EVERY_NODE

    @cached_property
    def has_post_filter(self) -> bool:
        """Whether a plugin may have something to say about rejections."""
        return bool(self._post_filters)

    def post_filter(self, context: PostFilterContext) -> Rejection:
        """The rejection, or what the first plugin makes of it that has something to say."""
        for post_filter in self._post_filters:
            answer = post_filter(context)
            if answer is not None:
                return answer
        return context.rejection

    def post_filter_hint(self, view: View, pod: Pod, node_name: str) -> bool:
        """Whether PostFilter may help the pod after a change of a node that does not take it."""
        return any(hint(view, pod, node_name, self) for hint in self._post_filter_hints)

    def soft_penalty(self, pod: Pod, node: Node) -> int:
        """The penalty of a node for the pod's soft preferences; negative for matching ones."""
        total = 0
        for penalty in self._soft_penalties:
            total += penalty(pod, node)
        return total

    def compared_labels(self, view: View, pod: Pod) -> frozenset[str]:
        """The labels by whose values the pod's nodes have to be compared with each other; empty if
        they have not.
        """
        found: frozenset[str] = frozenset()
        for compares in self._comparisons:
            if labels := compares(view, pod, self):
                found |= labels
        return found

    def normalized_scores(
        self, view: View, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> list[tuple[int, int]]:
        """The weighted sums of kube-scheduler's scores of all feasible nodes: of those for the
        pod's own preferences, and of the others; more is better.
        """
        return self.sums(view, pod, nodes, self._normalized_scores)

    def sums(
        self, view: View, pod: Pod, nodes: Sequence[NodeInfo], scores: Sequence[NormalizedScore]
    ) -> list[tuple[int, int]]:
        """The same sums of some of the scores."""
        sums = [[0] * len(nodes), [0] * len(nodes)]
        for one in scores:
            found = one.score(view, pod, nodes, self)
            if any(found):
                place = 0 if one.is_preference else 1
                sums[place] = [
                    total + one.weight * score
                    for total, score in zip(sums[place], found, strict=True)
                ]
        return list(zip(*sums, strict=True))

    def score(
        self,
        pod: Pod,
        node_info: NodeInfo,
        soft_penalty: int,
        tie_score: TieScore | None = None,
        data: DataNodes | None = None,
    ) -> Score:
        """The sort key of one feasible node with this soft penalty."""
        assert node_info.node is not None
        tie = 0 if tie_score is None else -tie_score(node_info)
        return (soft_penalty, self._keys(pod, node_info, data), tie, node_info.node.name)

    def _keys(
        self, pod: Pod, node_info: NodeInfo, data: DataNodes | None
    ) -> tuple[tuple[float, ...], ...]:
        early, late = self._node_keys, self._late_keys
        if data is None:
            return tuple([key(pod, node_info, self) for key in early + late])
        keys: list[tuple[float, ...]] = [key(pod, node_info, self) for key in early]
        keys.append((-data.score(node_info),))
        return (*keys, *[key(pod, node_info, self) for key in late])

    def compared_score(
        self,
        pod: Pod,
        node_info: NodeInfo,
        totals: tuple[int, int],
        tie_score: TieScore | None = None,
        data: DataNodes | None = None,
    ) -> Score:
        """The same for a node with these sums of ``normalized_scores``.

        A pod that requests no GPU keeps away from devices before anything but its own preferences
        counts; for a pod with GPUs, and where best fit is configured for all pods, what is lost of
        the devices comes next.
        """
        assert node_info.node is not None
        preferences, others = totals
        keys = self._keys(pod, node_info, data)
        if self.is_balanced(pod):
            keys = ((node_info.device_rank, -others), *keys)
        tie = 0 if tie_score is None else -tie_score(node_info)
        return (-preferences, keys, tie, node_info.node.name)

    def reserve(self, pod: Pod, context: ReserveContext) -> Placement | Refuse:
        """The pod's devices on the chosen node, and the objects that must exist before its
        Binding.
        """
        node_info = context.node_info
        assert node_info.node is not None
        placement = Placement(pod=pod, node_name=node_info.node.name)
        for reserve in self.points(pod).reserves:
            answer = reserve(context, placement)
            if isinstance(answer, Refuse):
                return answer
            placement = answer
        return self.pre_bind(context, placement)

    def pre_bind(self, context: ReserveContext, placement: Placement) -> Placement | Refuse:
        """The placement; a PendingPlacement if its Binding has to wait."""
        steps: tuple[PreBindStep, ...] = ()
        for pre_bind in self.points(placement.pod).pre_binds:
            step = pre_bind(context, placement)
            if step is None:
                continue
            if isinstance(step, Refuse):
                return step
            steps += (step,)
        if not steps:
            return placement
        same = {name: getattr(placement, name) for name in Placement.__struct_fields__}
        return PendingPlacement(**same, steps=steps)

    def queueing_hint(self, view: View, pod: Pod) -> Reasons | None:
        """The first plugin's answer whether the pod is to be retried; None: the filters decide."""
        for hint in self.points(pod).queueing_hints:
            answer = hint(view, pod, self)
            if answer is not None:
                return answer
        return None

    def equivalence_class(self, pod: Pod) -> Hashable:
        """Everything that the plugins read of a pod; pods of one class get the same answers."""
        extra = self._extra_reads
        return (
            (pod.equivalence_class, *[read.of(pod) for read in extra])
            if extra
            else pod.equivalence_class
        )

    @cached_property
    def node_labels(self) -> frozenset[str]:
        """The node labels that class filters and soft penalties read for every pod."""
        return frozenset(key for plugin in self.plugins for key in plugin.node_labels)

    def constraints(self, pod: Pod) -> Hashable:
        """Everything that the class filters and soft penalties read of a pod."""
        extra = self._extra_reads
        return (pod.constraints, *[read.of(pod) for read in extra]) if extra else pod.constraints

    @cached_property
    def _extra_reads(self) -> tuple[PodRead, ...]:
        reads = dict.fromkeys(read for plugin in self.plugins for read in plugin.reads)
        return tuple(read for read in reads if read not in IN_EQUIVALENCE_CLASS)

    @cached_property
    def _post_filters(self) -> tuple[PostFilter, ...]:
        return tuple(one.post_filter for one in self.plugins if one.post_filter is not None)

    @cached_property
    def _post_filter_hints(self) -> tuple[PostFilterHint, ...]:
        hints = (one.post_filter_hint for one in self.plugins)
        return tuple(hint for hint in hints if hint is not None)

    @cached_property
    def _soft_penalties(self) -> tuple[SoftPenalty, ...]:
        return tuple(one.soft_penalty for one in self.plugins if one.soft_penalty is not None)

    @cached_property
    def _comparisons(self) -> tuple[ComparesNodes, ...]:
        return tuple(one.compares_nodes for one in self.plugins if one.compares_nodes is not None)

    @cached_property
    def scores_of_node(self) -> tuple[NormalizedScore, ...]:
        """The normalized scores that depend on the node alone."""
        return tuple(one for one in self._normalized_scores if one.is_of_node)

    @cached_property
    def relative_scores(self) -> tuple[NormalizedScore, ...]:
        """The normalized scores that compare nodes with each other."""
        return tuple(one for one in self._normalized_scores if not one.is_of_node)

    @cached_property
    def _normalized_scores(self) -> tuple[NormalizedScore, ...]:
        return tuple(score for one in self.plugins for score in one.normalized_scores)

    @cached_property
    def _node_keys(self) -> tuple[NodeKey, ...]:
        return tuple(one.node_key for one in self.plugins if one.node_key is not None)

    @cached_property
    def _late_keys(self) -> tuple[NodeKey, ...]:
        return tuple(one.late_key for one in self.plugins if one.late_key is not None)


def first_rejection(pod: Pod, node_info: NodeInfo, filters: tuple[Check, ...]) -> Reasons:
    """The reasons of the first filter that rejects the node; empty when the pod fits."""
    for check in filters:
        reasons = check(pod, node_info)
        if reasons:
            return reasons
    return FITS


def first_bound_rejection(node_info: NodeInfo, bound: Bound) -> Reasons:
    """The same for the filters that PreFilter bound to what is not on the node."""
    for one in bound:
        reasons = one.check(node_info)
        if reasons:
            return reasons
    return FITS


def first_entry_rejection(node_info: NodeInfo, entry: MapEntry, bound: Bound) -> Reasons:
    """What these filters say of the devices that an entry of a map names."""
    for one in bound:
        reasons = one.at_entry(node_info, entry) if one.at_entry is not None else FITS
        if reasons:
            return reasons
    return FITS
