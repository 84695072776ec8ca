"""What enters the cluster state, and what comes out of folding it.

Everything that happens reaches the state as one of these values through one inbox: watch
events, whole lists, and the results of our own Bindings. Folding an event yields changes,
from which the queue learns who could be helped.
"""

from __future__ import annotations

import enum

import msgspec

from scheduler.model.crd.mig_partition import NodePartitions
from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.node import Namespace, Node
from scheduler.model.pod import Pod
from scheduler.model.quota import Quota
from scheduler.model.reason import RequeueCause
from scheduler.state.breakers.rejection_events import DeletedPodEvent as DeletedPodEvent
from scheduler.state.breakers.rejection_events import PastRejection as PastRejection
from scheduler.state.breakers.rejection_events import PastRejectionsRead as PastRejectionsRead
from scheduler.state.breakers.rejection_events import PodRejected as PodRejected


class PodUpdated(msgspec.Struct, frozen=True):
    """A pod was added or changed."""

    pod: Pod


class PodDeleted(msgspec.Struct, frozen=True):
    """A pod was deleted, or ended (it left the watch's selector)."""

    uid: str


class NodeUpdated(msgspec.Struct, frozen=True):
    """A node was added or changed."""

    node: Node


class NodeDeleted(msgspec.Struct, frozen=True):
    """A node was deleted."""

    name: str


class NamespaceUpdated(msgspec.Struct, frozen=True):
    """A namespace was added or changed."""

    namespace: Namespace


class NamespaceDeleted(msgspec.Struct, frozen=True):
    """A namespace was deleted."""

    name: str


class QuotaUpdated(msgspec.Struct, frozen=True):
    """A ResourceQuota changed; one that is gone limits nothing."""

    quota: Quota


class QuotasReplaced(msgspec.Struct, frozen=True):
    """All ResourceQuotas that limit GPUs."""

    quotas: tuple[Quota, ...]


class PodsReplaced(msgspec.Struct, frozen=True):
    """All pods there are: whatever is not in the list is gone."""

    pods: tuple[Pod, ...]


class NodesReplaced(msgspec.Struct, frozen=True):
    """All nodes there are."""

    nodes: tuple[Node, ...]


class NamespacesReplaced(msgspec.Struct, frozen=True):
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


class MigrationUpdated(msgspec.Struct, frozen=True):
    """A move's ticket was written or changed."""

    ticket: Migration


class ObjectUnreadable(msgspec.Struct, frozen=True):
    """An object that cannot be read; ``kind`` is its plural, ``name`` may have a namespace."""

    kind: str
    name: str
    problem: str


class MigrationDeleted(msgspec.Struct, frozen=True):
    """A move's ticket was deleted, or cannot be read any more."""

    ticket_id: str
    unread: ObjectUnreadable | None = None


class MigrationsReplaced(msgspec.Struct, frozen=True):
    """All tickets there are, without those that cannot be read."""

    tickets: tuple[Migration, ...]
    unread: tuple[ObjectUnreadable, ...] = ()


class MigrationWriteFailed(msgspec.Struct, frozen=True):
    """A ticket could not be written: the API server said no."""

    ticket_id: str
    message: str


class OwnerRead(msgspec.Struct, frozen=True):
    """What the API server says about a pod's owner; None where it did not answer."""

    pod_uid: str
    ticket_id: str
    facts: OwnerFacts | None


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


class PartitionsUpdated(msgspec.Struct, frozen=True):
    """What a node's operator says about the instances that it cuts for us was changed."""

    cuts: NodePartitions


class PartitionsDeleted(msgspec.Struct, frozen=True):
    """A node's object for cuts was deleted."""

    node_name: str


class PartitionsReplaced(msgspec.Struct, frozen=True):
    """All such objects there are."""

    cuts: tuple[NodePartitions, ...]


class PartitionsWriteFailed(msgspec.Struct, frozen=True):
    """Instances could not be asked for: the API server said no."""

    node_name: str
    message: str


PartitionEvent = PartitionsUpdated | PartitionsDeleted | PartitionsReplaced | PartitionsWriteFailed

MoveNews = (
    MigrationUpdated
    | MigrationDeleted
    | MigrationsReplaced
    | MigrationWriteFailed
    | OwnerRead
    | EvictionEnded
)

Event = (
    PodUpdated
    | PodDeleted
    | NodeUpdated
    | NodeDeleted
    | NamespaceUpdated
    | NamespaceDeleted
    | PodsReplaced
    | NodesReplaced
    | NamespacesReplaced
    | QuotaUpdated
    | QuotasReplaced
    | BindEnded
    | PodRejected
    | PastRejectionsRead
    | MoveNews
    | PartitionEvent
)


class PodPending(msgspec.Struct, frozen=True):
    """One of our pods waits for a node, new or with changed wishes."""

    pod: Pod


class PodDone(msgspec.Struct, frozen=True):
    """One of our pods needs no decision any more: bound, gone, gated or ended."""

    uid: str


class BindFailed(msgspec.Struct, frozen=True):
    """``what`` failed in a way that deserves another attempt, after a pause."""

    pod: Pod
    message: str
    what: str = "binding failed"


class ClusterEvent(msgspec.Struct, frozen=True):
    """Something changed that may lift rejections of the given cause.

    ``scope`` narrows it: the workload for OWNER, the namespace for NAMESPACE; so do the node
    that changed, and the resources that became free there. Empty means anybody, anywhere,
    anything.
    """

    cause: RequeueCause
    scope: str = ""
    node_name: str = ""
    what: frozenset[str] = frozenset()


Change = PodPending | PodDone | BindFailed | ClusterEvent
