"""Events that enter the cluster state, and the changes that follow from them.

Everything that happens reaches the state as one of these values through one inbox: watch
events, whole lists, and the results of our own requests. Folding an event yields changes,
which tell the queue which pods could be scheduled now.
"""

from __future__ import annotations

import enum
from typing import Final, get_args

import msgspec

from scheduler.model.crd.mig_partition import NodePartitions
from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
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
    """A ResourceQuota changed; a deleted one limits nothing."""

    quota: Quota


class QuotasReplaced(msgspec.Struct, frozen=True):
    """All ResourceQuotas that limit GPUs."""

    quotas: tuple[Quota, ...]


class PodsReplaced(msgspec.Struct, frozen=True):
    """All pods that exist: a pod that is not in the list is deleted."""

    pods: tuple[Pod, ...]


class NodesReplaced(msgspec.Struct, frozen=True):
    """All nodes that exist."""

    nodes: tuple[Node, ...]


class NamespacesReplaced(msgspec.Struct, frozen=True):
    """All namespaces that exist."""

    namespaces: tuple[Namespace, ...]


class BindOutcome(enum.Enum):
    """How a Binding ended; the text is the label of the metric."""

    BOUND = "bound"  # by us, to the node we chose
    GONE = "gone"  # the pod does not exist any more
    TAKEN = "taken"  # another scheduler bound it, or it may not be bound (any more)
    REFUSED = "refused"  # the API server refuses it: retried, with growing pauses
    UNREACHABLE = "unreachable"  # no answer in time; not bound when we looked, so retried
    UNSENT = "unsent"  # we stopped leading before it was sent; the pod waits as before


class BindEnded(msgspec.Struct, frozen=True):
    """The result of our own Binding of a pod; ``message`` is the API server's."""

    uid: str
    outcome: BindOutcome
    message: str = ""


class MigrationUpdated(msgspec.Struct, frozen=True):
    """A migration object was created or changed."""

    migration: Migration


class ObjectUnreadable(msgspec.Struct, frozen=True):
    """An object that cannot be read; ``kind`` is its plural, ``name`` may have a namespace."""

    kind: str
    name: str
    problem: str


class MigrationDeleted(msgspec.Struct, frozen=True):
    """A migration object was deleted, or cannot be read any more."""

    migration_id: str
    unread: ObjectUnreadable | None = None


class MigrationsReplaced(msgspec.Struct, frozen=True):
    """All migration objects that exist, without those that cannot be read."""

    migrations: tuple[Migration, ...]
    unread: tuple[ObjectUnreadable, ...] = ()


class MigrationWriteFailed(msgspec.Struct, frozen=True):
    """The API server refused to create a migration object."""

    migration_id: str
    message: str


class OwnerRead(msgspec.Struct, frozen=True):
    """A pod's owner as the API server has it; None where it did not answer."""

    pod_uid: str
    migration_id: str
    facts: OwnerFacts | None


class Eviction(enum.Enum):
    """How an eviction ended."""

    EVICTED = "evicted"
    GONE = "gone"  # the pod is not there any more, or not what it was
    FORBIDDEN = "forbidden"  # a PodDisruptionBudget forbids it
    FAILED = "failed"  # refused for another reason, or no answer: tried again


class EvictionEnded(msgspec.Struct, frozen=True):
    """The result of our own eviction of a migration's pod; ``message`` is the API server's."""

    migration_id: str
    result: Eviction
    message: str = ""


class PartitionsUpdated(msgspec.Struct, frozen=True):
    """The MIG instances that a node's operator reports were changed."""

    partitions: NodePartitions


class PartitionsDeleted(msgspec.Struct, frozen=True):
    """A node's object of MIG instances was deleted."""

    node_name: str


class PartitionsReplaced(msgspec.Struct, frozen=True):
    """All such objects that exist."""

    partitions: tuple[NodePartitions, ...]


class PartitionsWriteFailed(msgspec.Struct, frozen=True):
    """The API server refused a request for MIG instances."""

    node_name: str
    message: str


class PodRecreated(msgspec.Struct, frozen=True):
    """The result of deleting a pod for its controller to create it again (``RecreatePod``)."""

    pod: Pod
    attempt: int
    result: str


PartitionEvent = PartitionsUpdated | PartitionsDeleted | PartitionsReplaced | PartitionsWriteFailed

MigrationEvent = (
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
    | PodRecreated
    | MigrationEvent
    | PartitionEvent
)

#: The types of all events.
EVERY: Final[tuple[type, ...]] = get_args(Event)


class PodPending(msgspec.Struct, frozen=True):
    """One of our pods waits for a node: it is new or its spec changed."""

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
    that changed, and the resources that became free there. Empty means any workload, any node,
    any resource.
    """

    cause: RequeueCause
    scope: str = ""
    node_name: str = ""
    what: frozenset[str] = frozenset()


Change = PodPending | PodDone | BindFailed | ClusterEvent
