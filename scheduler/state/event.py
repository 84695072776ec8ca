"""What enters the cluster state, and what comes out of folding it.

Everything that happens reaches the state as one of these values through one inbox: watch
events, whole lists, and the results of our own Bindings. Folding an event yields changes,
from which the queue learns who could be helped.
"""

from __future__ import annotations

import enum

import msgspec

from scheduler.model.cut import NodeCuts
from scheduler.model.node import Namespace, Node
from scheduler.model.obstacle import Facts
from scheduler.model.pod import Pod
from scheduler.model.quota import Quota
from scheduler.model.reason import Cause
from scheduler.model.ticket import Ticket
from scheduler.state.rejected import Hearsay as Hearsay
from scheduler.state.rejected import PastRefusal as PastRefusal
from scheduler.state.rejected import PastTold as PastTold
from scheduler.state.rejected import PodRejected as PodRejected


class PodSeen(msgspec.Struct, frozen=True):
    """A pod was added or changed."""

    pod: Pod


class PodVanished(msgspec.Struct, frozen=True):
    """A pod was deleted, or ended (it left the watch's selector)."""

    uid: str


class NodeSeen(msgspec.Struct, frozen=True):
    """A node was added or changed."""

    node: Node


class NodeVanished(msgspec.Struct, frozen=True):
    """A node was deleted."""

    name: str


class NamespaceSeen(msgspec.Struct, frozen=True):
    """A namespace was added or changed."""

    namespace: Namespace


class NamespaceVanished(msgspec.Struct, frozen=True):
    """A namespace was deleted."""

    name: str


class QuotaSeen(msgspec.Struct, frozen=True):
    """A ResourceQuota changed; one that is gone limits nothing."""

    quota: Quota


class QuotasListed(msgspec.Struct, frozen=True):
    """All ResourceQuotas that limit GPUs."""

    quotas: tuple[Quota, ...]


class PodsListed(msgspec.Struct, frozen=True):
    """All pods there are: whatever is not in the list is gone."""

    pods: tuple[Pod, ...]


class NodesListed(msgspec.Struct, frozen=True):
    """All nodes there are."""

    nodes: tuple[Node, ...]


class NamespacesListed(msgspec.Struct, frozen=True):
    """All namespaces there are."""

    namespaces: tuple[Namespace, ...]


class BindOutcome(enum.Enum):
    """How a Binding ended; the text is the label of the metric."""

    BOUND = "bound"  # by us, to the node we chose
    GONE = "gone"  # the pod does not exist any more
    TAKEN = "taken"  # somebody else bound it, or it may not be bound (any more)
    REFUSED = "refused"  # the API server refuses it: retried, with growing pauses
    UNREACHABLE = "unreachable"  # no answer in time; not bound when we looked, so retried
    UNSENT = "unsent"  # we stopped leading before it was sent; the pod waits as before


class BindEnded(msgspec.Struct, frozen=True):
    """The result of our own Binding of a pod; ``message`` is the API server's."""

    uid: str
    outcome: BindOutcome
    message: str = ""


class TicketSeen(msgspec.Struct, frozen=True):
    """A move's ticket was written or changed."""

    ticket: Ticket


class Unread(msgspec.Struct, frozen=True):
    """An object that cannot be read; ``kind`` is its plural, ``name`` may have a namespace."""

    kind: str
    name: str
    problem: str


class TicketVanished(msgspec.Struct, frozen=True):
    """A move's ticket was deleted, or cannot be read any more."""

    ticket_id: str
    unread: Unread | None = None


class TicketsListed(msgspec.Struct, frozen=True):
    """All tickets there are, without those that cannot be read."""

    tickets: tuple[Ticket, ...]
    unread: tuple[Unread, ...] = ()


class TicketUnwritten(msgspec.Struct, frozen=True):
    """A ticket could not be written: the API server said no."""

    ticket_id: str
    message: str


class OwnerTold(msgspec.Struct, frozen=True):
    """What the API server says about a pod's owner; None where it did not answer."""

    pod_uid: str
    ticket_id: str
    facts: Facts | None


class Eviction(enum.Enum):
    """How an eviction ended."""

    EVICTED = "evicted"
    GONE = "gone"  # the pod is not there any more, or not what it was
    FORBIDDEN = "forbidden"  # a PodDisruptionBudget stands against it
    FAILED = "failed"  # refused for another reason, or no answer: tried again


class EvictionEnded(msgspec.Struct, frozen=True):
    """The result of our own eviction of a ticket's pod; ``message`` is the API server's."""

    ticket_id: str
    result: Eviction
    message: str = ""


class CutsSeen(msgspec.Struct, frozen=True):
    """What a node's operator says about the instances that it cuts for us was changed."""

    cuts: NodeCuts


class CutsVanished(msgspec.Struct, frozen=True):
    """A node's object for cuts was deleted."""

    node_name: str


class CutsListed(msgspec.Struct, frozen=True):
    """All such objects there are."""

    cuts: tuple[NodeCuts, ...]


class CutsUnwritten(msgspec.Struct, frozen=True):
    """Instances could not be asked for: the API server said no."""

    node_name: str
    message: str


CutNews = CutsSeen | CutsVanished | CutsListed | CutsUnwritten

MoveNews = TicketSeen | TicketVanished | TicketsListed | TicketUnwritten | OwnerTold | EvictionEnded

Event = (
    PodSeen
    | PodVanished
    | NodeSeen
    | NodeVanished
    | NamespaceSeen
    | NamespaceVanished
    | PodsListed
    | NodesListed
    | NamespacesListed
    | QuotaSeen
    | QuotasListed
    | BindEnded
    | PodRejected
    | PastTold
    | MoveNews
    | CutNews
)


class Waiting(msgspec.Struct, frozen=True):
    """One of our pods waits for a node, new or with changed wishes."""

    pod: Pod


class Settled(msgspec.Struct, frozen=True):
    """One of our pods needs no decision any more: bound, gone, gated or ended."""

    uid: str


class Retry(msgspec.Struct, frozen=True):
    """``what`` failed in a way that deserves another attempt, after a pause."""

    pod: Pod
    message: str
    what: str = "binding failed"


class Lifted(msgspec.Struct, frozen=True):
    """Something changed that may lift rejections of the given cause.

    ``scope`` narrows it: the workload for OWNER, the namespace for NAMESPACE; so do the node
    that changed, and the resources that became free there. Empty means anybody, anywhere,
    anything.
    """

    cause: Cause
    scope: str = ""
    node_name: str = ""
    what: frozenset[str] = frozenset()


Change = Waiting | Settled | Retry | Lifted
