"""Events that enter the cluster state, and the changes that they cause.

All input reaches the state as one of these values through one inbox: watch events, whole lists, and
the results of own requests. Folding an event yields changes; the queue uses them to requeue pods.
"""

from __future__ import annotations

import enum
from typing import Final, get_args

import msgspec

from scheduler.model.crd.mig_partition import NodePartitions
from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota
from scheduler.model.reasons.reason import RequeueCause
from scheduler.model.volumes.storage import StorageObject
from scheduler.state.breakers.rejection_events import DeletedPodEvent as DeletedPodEvent
from scheduler.state.breakers.rejection_events import PastRejection as PastRejection
from scheduler.state.breakers.rejection_events import PastRejectionsRead as PastRejectionsRead
from scheduler.state.breakers.rejection_events import PodRejected as PodRejected
from scheduler.state.dra.events import ClaimsReleased as ClaimsReleased
from scheduler.state.dra.events import ClaimsReserved as ClaimsReserved
from scheduler.state.dra.events import DraDeleted as DraDeleted
from scheduler.state.dra.events import DraEvent as DraEvent
from scheduler.state.dra.events import DraReplaced as DraReplaced
from scheduler.state.dra.events import DraUpdated as DraUpdated
from scheduler.state.gangs.events import GangChanged as GangChanged
from scheduler.state.gangs.events import PodGroupDeleted as PodGroupDeleted
from scheduler.state.gangs.events import PodGroupEvent as PodGroupEvent
from scheduler.state.gangs.events import PodGroupsReplaced as PodGroupsReplaced
from scheduler.state.gangs.events import PodGroupUpdated as PodGroupUpdated
from scheduler.state.teams.events import TeamsRead as TeamsRead


class PodUpdated(msgspec.Struct, frozen=True):
    """A pod was added or changed."""

    pod: Pod


class PodDeleted(msgspec.Struct, frozen=True):
    """A pod was deleted, or reached a final phase (it left the watch's selector)."""

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
    """A ResourceQuota changed; a deletion arrives as a quota without limits."""

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
    """The result of a Binding; the text is the label of the metric."""

    BOUND = "bound"  # by this scheduler, to the chosen node
    GONE = "gone"  # the pod does not exist
    TAKEN = "taken"  # another scheduler bound it, or it may not be bound
    REFUSED = "refused"  # the API server rejects it: retried, with backoff
    UNREACHABLE = "unreachable"  # no response in time, and not bound afterwards: retried
    UNSENT = "unsent"  # leadership ended before it was sent; the pod waits as before


class BindEnded(msgspec.Struct, frozen=True):
    """The result of a Binding of this scheduler; ``message`` is the API server's."""

    uid: str
    outcome: BindOutcome
    message: str = ""


class MigrationUpdated(msgspec.Struct, frozen=True):
    """A migration object was created or changed."""

    migration: Migration


class ObjectUnreadable(msgspec.Struct, frozen=True):
    """An object that cannot be decoded; ``kind`` is its plural, ``name`` may have a namespace."""

    kind: str
    name: str
    problem: str


class MigrationDeleted(msgspec.Struct, frozen=True):
    """A migration object was deleted, or cannot be decoded any more."""

    migration_id: str
    unread: ObjectUnreadable | None = None


class MigrationsReplaced(msgspec.Struct, frozen=True):
    """All migration objects that exist, without undecodable ones."""

    migrations: tuple[Migration, ...]
    unread: tuple[ObjectUnreadable, ...] = ()


class MigrationWriteFailed(msgspec.Struct, frozen=True):
    """The API server rejected the creation of a migration object."""

    migration_id: str
    message: str


class OwnerRead(msgspec.Struct, frozen=True):
    """A pod's owner from the API server; None without a response.

    ``is_sent`` is false where this process did not lead and sent no request; ``is_busy`` is true
    where the same request may succeed later.
    """

    pod_uid: str
    migration_id: str
    facts: OwnerFacts | None
    is_sent: bool = True
    is_busy: bool = False


class Eviction(enum.Enum):
    """The result of an eviction."""

    EVICTED = "evicted"
    GONE = "gone"  # the pod does not exist, or was replaced
    FORBIDDEN = "forbidden"  # a PodDisruptionBudget forbids it
    FAILED = "failed"  # failed for another reason, or no response: retried


class EvictionEnded(msgspec.Struct, frozen=True):
    """The result of an eviction for a migration; ``message`` is the API server's."""

    migration_id: str
    result: Eviction
    message: str = ""


class PartitionsUpdated(msgspec.Struct, frozen=True):
    """The MIG instances in a node's MigPartition status changed."""

    partitions: NodePartitions


class PartitionsDeleted(msgspec.Struct, frozen=True):
    """A node's MigPartition object was deleted."""

    node_name: str


class PartitionsReplaced(msgspec.Struct, frozen=True):
    """All MigPartition objects that exist."""

    partitions: tuple[NodePartitions, ...]


class PartitionsWriteFailed(msgspec.Struct, frozen=True):
    """The API server rejected a request for MIG instances."""

    node_name: str
    message: str


class BudgetUpdated(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget was added or changed."""

    budget: DisruptionBudget


class BudgetDeleted(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget was deleted."""

    namespace: str
    name: str


class BudgetsReplaced(msgspec.Struct, frozen=True):
    """All PodDisruptionBudgets that exist."""

    budgets: tuple[DisruptionBudget, ...]


class VictimOutcome(enum.Enum):
    """How the preemption of one pod ended; the text is the label of the metric."""

    DELETED = "deleted"
    GONE = "gone"  # the pod does not exist any more
    REFUSED = "refused"  # the API server refuses the condition or the deletion
    UNREACHABLE = "unreachable"
    UNSENT = "unsent"  # this process stopped leading before


class VictimResult(msgspec.Struct, frozen=True):
    """The result for one victim; ``message`` is the API server's."""

    pod: Pod
    outcome: VictimOutcome
    message: str = ""


class PreemptionEnded(msgspec.Struct, frozen=True):
    """The API server has answered about every victim of a preemptor."""

    preemptor: Pod
    node_name: str
    results: tuple[VictimResult, ...]


class PodRecreated(msgspec.Struct, frozen=True):
    """The result of deleting a pod for its controller to create it again (``RecreatePod``)."""

    pod: Pod
    attempt: int
    result: str


BudgetEvent = BudgetUpdated | BudgetDeleted | BudgetsReplaced


class StorageUpdated(msgspec.Struct, frozen=True):
    """A claim, a volume, a storage class or an object of a CSI driver was added or changed."""

    item: StorageObject


class StorageDeleted(msgspec.Struct, frozen=True):
    """Such an object was deleted."""

    kind: type[StorageObject]
    key: str


class StorageReplaced(msgspec.Struct, frozen=True):
    """All objects of one such kind that exist."""

    kind: type[StorageObject]
    items: tuple[StorageObject, ...]


class VolumesWritten(msgspec.Struct, frozen=True):
    """The result of writing what binds a pod's claims: ``written`` has the version of each object.

    ``attempt`` is the number of the request; ``problem`` is empty where all was written;
    ``is_unsent`` where we stopped leading before that.
    """

    uid: str
    attempt: int
    written: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    is_unsent: bool = False


StorageEvent = StorageUpdated | StorageDeleted | StorageReplaced

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
    | PreemptionEnded
    | BudgetEvent
    | MigrationEvent
    | PartitionEvent
    | StorageEvent
    | VolumesWritten
    | DraEvent
    | ClaimsReserved
    | ClaimsReleased
    | PodGroupEvent
    | TeamsRead
)

#: The types of all events.
EVERY: Final[tuple[type, ...]] = get_args(Event)


class PodPending(msgspec.Struct, frozen=True):
    """An own pod needs a node: it is new or its spec changed."""

    pod: Pod


class PodActivated(msgspec.Struct, frozen=True):
    """A pending own pod is decided without the rest of its backoff."""

    pod: Pod


class PodDone(msgspec.Struct, frozen=True):
    """An own pod needs no decision any more: bound, deleted, gated or ended."""

    uid: str


class BindFailed(msgspec.Struct, frozen=True):
    """``what`` failed and is retried after a backoff."""

    pod: Pod
    message: str
    what: str = "binding failed"


class ClusterEvent(msgspec.Struct, frozen=True):
    """A change that may lift rejections of the given cause.

    ``scope`` is the workload for OWNER, the namespace for NAMESPACE. The changed node and the
    resources that became free there restrict it further. Empty means any workload, any node, any
    resource. ``pod`` is the placed pod that changed, for PODS_IN_DOMAIN; None means any.
    """

    cause: RequeueCause
    scope: str = ""
    node_name: str = ""
    what: frozenset[str] = frozenset()
    pod: Pod | None = None


Change = PodPending | PodActivated | PodDone | BindFailed | ClusterEvent | GangChanged
