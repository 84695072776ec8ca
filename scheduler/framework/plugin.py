"""A plugin: a record of pure functions at the extension points of the scheduling framework.

========== =================================================================================
PreFilter  ``pre_filter``: before any node is checked; may reject the pod or name its nodes.
Filter     ``filters``: whether the pod fits on one node, and the reasons if not.
Score      ``soft_penalty`` per node class, then ``node_key`` per node; smaller is better.
           ``normalized_scores`` of all feasible nodes instead of ``soft_penalty`` where a plugin
           ``compares_nodes``, and for pods that request no GPU. ``tie_break`` between nodes that
           are equal for a pod with GPUs. ``data_nodes``, then ``late_key``, between ``node_key``
           and ``tie_break``.
PostFilter ``post_filter``: after every node rejected the pod; may choose pods to preempt.
Reserve    ``reserve``: the pod's devices on the chosen node; may still reject the pod.
PreBind    ``pre_bind``: objects that the Binding waits for; may still reject the pod.
========== =================================================================================

The requeue hints are in the reason codes (``ReasonCode.lifted_by``): a rejected pod is retried
after an event that lifts one of its reasons. Before that ``decide/requeue_check`` runs the filters
at the node of the event, or the ``queueing_hint`` of the plugin that names the pod's nodes, and
asks ``post_filter_hint`` where the node does not take the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Protocol

import msgspec

from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement, PreBindStep, Rejection
from scheduler.framework.pod_reads import PodRead
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode
from scheduler.state.node_info import NodeInfo

Reasons = tuple[Reason, ...]
#: The answer of a filter for a node where the pod fits.
FITS: Reasons = ()

Check = Callable[[Pod, NodeInfo], Reasons]


class ClassFilter(msgspec.Struct, frozen=True):
    """A filter with one answer for all nodes of a class (``state/index/node_index``).

    It reads nothing of a node but the cordon, the taints, and the labels in ``Pod.label_keys`` or
    ``Plugin.node_labels``.
    """

    check: Check


class NodeFilter(msgspec.Struct, frozen=True):
    """A filter whose answer depends on this node's NodeInfo only."""

    check: Check


Filter = ClassFilter | NodeFilter


class TrialKey(msgspec.Struct, frozen=True):
    """What trials on a node depend on beside the node: ``of_pod`` is the same for equal pods, and
    ``at_node`` says in which state of other objects an answer holds.
    """

    of_pod: Hashable
    at_node: object = None


class BoundFilter(msgspec.Struct, frozen=True):
    """PreFilter's answer of a plugin whose filter also reads what is not on the node: pods in the
    node's topology domains, or other objects.

    ``check`` is bound to what PreFilter read of them, and holds for this decision only; it is asked
    about nodes that pass every other filter. ``only`` are the names of the nodes that can pass,
    where the plugin knows them and they are few. An equal ``generation`` means equal answers to
    pods of one equivalence class with equal terms, as long as no node changed; None promises
    nothing. ``at_entry`` is asked about the devices that an entry of gpu-scheduling-map names on a
    node, once it is known that the node has them. ``work`` counts the steps of its searches.
    ``trial_key`` is about trials on a node, None if they read too much to say so.
    """

    check: Callable[[NodeInfo], Reasons]
    only: frozenset[str] | None = None
    generation: int | None = None
    at_entry: Callable[[NodeInfo, MapEntry], Reasons] | None = None
    work: Budget | None = None
    trial_key: Callable[[NodeInfo], TrialKey | None] | None = None


Bound = tuple[BoundFilter, ...]


class Refuse(msgspec.Struct, frozen=True):
    """No node fits, independently of the nodes; ``reason`` summarizes the reasons in ``behind``.

    ``candidates`` are nodes where the end of pods can help all the same.
    """

    reason: Reason
    behind: Reasons = ()
    candidates: tuple[str, ...] = ()


class ChosenNode(msgspec.Struct, frozen=True):
    """The node that a plugin chose, and the line of gpu-scheduling-map that names it."""

    node_info: NodeInfo
    entry: MapEntry | None = None


class RefusedNode(msgspec.Struct, frozen=True):
    """The only possible node of the pod, with its rejection."""

    node_name: str
    reasons: Reasons


Choice = ChosenNode | RefusedNode | Refuse


class CheckNode(Protocol):
    """Asks the filters about one node."""

    def __call__(self, node_info: NodeInfo, entry: MapEntry | None = None, /) -> Reasons | None:
        """All filters, or those about the devices of an entry; None if the budget is spent."""


class NamedNodes(Protocol):
    """PreFilter's answer of a plugin that names the pod's nodes itself, in order."""

    @property
    def elsewhere(self) -> Reasons:
        """The reason of every other node."""

    def choose(self, check: CheckNode, work: Budget) -> Choice | None:
        """The first named node that fits; None if one takes more steps than allowed."""


QueueingHint = Callable[[View, Pod, Settings], Reasons | None]
PreFilter = Callable[[View, Pod, Settings], Refuse | NamedNodes | BoundFilter | None]
SoftPenalty = Callable[[Pod, Node], int]
#: The greatest score of one node (kube-scheduler: MaxNodeScore).
SCORE_MAX: Final = 100


class NormalizedScore(msgspec.Struct, frozen=True):
    """kube-scheduler's score of all feasible nodes of a pod: 0 to SCORE_MAX each, more is better.

    It compares the nodes with each other, so it is computed only for pods for which a plugin
    ``compares_nodes`` or that request no GPU. ``is_preference`` where it scores what the pod itself
    prefers: the weighted sum of these scores comes first. ``is_of_node`` where a node's score
    depends on its NodeInfo and the pod's equivalence class only, and not on the other nodes.
    """

    weight: int
    score: Callable[[View, Pod, Sequence[NodeInfo], Settings], Sequence[int]]
    is_preference: bool = True
    is_of_node: bool = False


#: The node labels by whose values alone a plugin prefers nodes; empty if it prefers none.
ComparesNodes = Callable[[View, Pod, Settings], frozenset[str]]
NO_LABELS: Final[frozenset[str]] = frozenset()
#: A score of nodes that are equal otherwise, more is better; None if they are equal in it too.
TieBreak = Callable[[View, Pod], Callable[[NodeInfo], int] | None]


class DataNodes(msgspec.Struct, frozen=True):
    """Where a pod has data: more of the ``score`` is better.

    It reads of a node no more than its name and labels. ``names`` are nodes with such data that are
    not told by a label of the pod (``Pod.label_keys``).
    """

    score: Callable[[NodeInfo], int]
    names: frozenset[str] = frozenset()


#: None if the pod has no data on nodes.
FindData = Callable[[View, Pod], DataNodes | None]
NodeKey = Callable[[Pod, NodeInfo, Settings], tuple[float, ...]]


class ReserveContext(msgspec.Struct, frozen=True):
    """The chosen node, and the state that a plugin may read."""

    view: View
    settings: Settings
    node_info: NodeInfo
    entry: MapEntry | None = None


Reserve = Callable[[ReserveContext, Placement], Placement | Refuse]
PreBind = Callable[[ReserveContext, Placement], PreBindStep | Refuse | None]


class Trial(Protocol):
    """One node with pods taken off, tried out; the cluster itself is not changed."""

    def remove(self, uid: str) -> None:
        """Take a pod off the node."""

    def put_back(self, uid: str) -> None:
        """Enter a pod again that was removed."""

    def reasons(self) -> Reasons | None:
        """Why the node does not take the pod now, by every filter; None: the budget is spent."""

    def reserve(self) -> Placement | Refuse:
        """What the pod would get on the node, which has no reason against it now."""


class PostFilterContext(msgspec.Struct, frozen=True):
    """A rejection, and what may be tried out. ``nominated_node`` is the node that the pod waits
    for. ``work`` is PostFilter's own budget, of which ``trial`` spends. Trials with equal keys of
    ``trial_key`` have equal victims until the node changes; None: they depend on more.
    """

    view: View
    settings: Settings
    rejection: Rejection
    nominated_node: str
    trial: Callable[[str], Trial]
    trial_key: Callable[[str], TrialKey | None]
    work: Budget


#: The rejection with what PostFilter has to say, or the pods to preempt; None: nothing to say.
PostFilter = Callable[[PostFilterContext], Rejection | None]
#: Whether PostFilter may help a pod after a change of the named node, which does not take the pod.
PostFilterHint = Callable[[View, Pod, str, Settings], bool]


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin.

    ``reads`` is everything that it reads of a pod; ``node_labels`` are the keys of the node labels
    that its class filters and its soft penalty read; ``codes`` are its reason codes. ``pre_bind``
    returns None if the Binding need not wait. ``queueing_hint`` returns the reasons that still
    hold, an empty tuple if the pod is to be retried, and None if the filters at the node decide.

    A plugin that ``skips_plain`` pods has nothing to say about a pod that ``is_plain``. It is not
    asked about one at the extension points of ``extension_points``, as kube-scheduler does
    not ask a plugin whose PreFilter returned Skip.
    """

    name: str
    reads: tuple[PodRead, ...] = ()
    node_labels: tuple[str, ...] = ()
    codes: tuple[ReasonCode, ...] = ()
    skips_plain: bool = False
    queueing_hint: QueueingHint | None = None
    pre_filter: PreFilter | None = None
    filters: tuple[Filter, ...] = ()
    soft_penalty: SoftPenalty | None = None
    compares_nodes: ComparesNodes | None = None
    normalized_scores: tuple[NormalizedScore, ...] = ()
    node_key: NodeKey | None = None
    data_nodes: FindData | None = None
    late_key: NodeKey | None = None
    tie_break: TieBreak | None = None
    post_filter: PostFilter | None = None
    post_filter_hint: PostFilterHint | None = None
    reserve: Reserve | None = None
    pre_bind: PreBind | None = None


def normalized(raw: Sequence[int], *, reverse: bool = False) -> list[int]:
    """Scores from 0 to SCORE_MAX, in proportion to the greatest (kube-scheduler:
    helper.DefaultNormalizeScore).
    """
    most = max(raw, default=0)
    if most == 0:
        return [SCORE_MAX if reverse else 0 for _ in raw]
    scores = [SCORE_MAX * value // most for value in raw]
    return [SCORE_MAX - score for score in scores] if reverse else scores
