"""Actions: values that a handler returns for the I/O shells, run by ``controllers/dispatch``.

A handler changes only its own state and returns everything else as actions. So a test can compare
actions without a shell, and one module defines their order.
"""

from __future__ import annotations

import msgspec

from scheduler.model.crd.mig_partition import PartitionRequest
from scheduler.model.crd.migration_actions import MigrationAction
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.extended_resources import ExtendedRequests
from scheduler.model.node import Node
from scheduler.model.pods.gang import GangKey, GroupState, PodGroup
from scheduler.model.pods.pod import Owner, Pod
from scheduler.model.reasons.condition_reason import ConditionReason


class RecordPodEvent(msgspec.Struct, frozen=True):
    """Write an event on a pod; ``kind`` is Normal or Warning."""

    pod: Pod
    reason: str
    text: str
    kind: str = "Warning"
    decision_id: str = ""


class RecordNodeEvent(msgspec.Struct, frozen=True):
    """Write an event on a node."""

    node: Node
    reason: str
    text: str


class RecordOwnerEvent(msgspec.Struct, frozen=True):
    """Write an event on the controller of a pod."""

    namespace: str
    owner: Owner
    reason: str
    text: str


class RecordScheduled(msgspec.Struct, frozen=True):
    """Write that a pod was bound."""

    pod: Pod
    node_name: str
    decision_id: str = ""


class RecordUnscheduled(msgspec.Struct, frozen=True):
    """Write an event and the condition of a pod that stays pending.

    ``nominated_node`` is the node with future capacity for the pod: it becomes free, or creates MIG
    instances.
    """

    pod: Pod
    message: str
    reason: str = ConditionReason.UNSCHEDULABLE
    decision_id: str = ""
    nominated_node: str = ""


class RecordWaiting(msgspec.Struct, frozen=True):
    """Write the condition of a pod that is placed on a node without its MIG instances yet."""

    pod: Pod
    message: str
    node_name: str


class RecordPreempted(msgspec.Struct, frozen=True):
    """Write the event of a pod that was preempted by another one."""

    pod: Pod
    preemptor: Pod
    node_name: str


class DropCondition(msgspec.Struct, frozen=True):
    """Do not send the pod's queued condition: the pod is placed."""

    uid: str


class ForgetPod(msgspec.Struct, frozen=True):
    """Forget what was recorded about a deleted pod."""

    uid: str


class LookUpPod(msgspec.Struct, frozen=True):
    """Read from the API server how a deleted pod ended; the result is an event."""

    pod: Pod


class RecreatePod(msgspec.Struct, frozen=True):
    """Delete a pod, so that its controller creates it again; ``attempt`` counts per owner."""

    pod: Pod
    attempt: int


class PreemptPods(msgspec.Struct, frozen=True):
    """Delete pods, so that a pod of higher priority finds room on their node; the answers are an
    event. ``is_reclaim`` where the room is guaranteed to the pod's team.
    """

    preemptor: Pod
    node_name: str
    victims: tuple[Pod, ...]
    is_reclaim: bool = False


class ReadGroupOwner(msgspec.Struct, frozen=True):
    """Read the owner of a gang, whose object has the minimum; the answer is an event."""

    key: GangKey


class WriteGroupState(msgspec.Struct, frozen=True):
    """Write the condition PodGroupInitiallyScheduled of a PodGroup in the version that was seen."""

    group: PodGroup
    state: GroupState


class RequestPartitions(msgspec.Struct, frozen=True):
    """Write which MIG instances must exist on a node."""

    node_name: str
    requests: tuple[PartitionRequest, ...]


class SetMigConfig(msgspec.Struct, frozen=True):
    """Set the label from which mig-manager configures a node."""

    node_name: str
    config: str


class GiveVolume(msgspec.Struct, frozen=True):
    """Give a PersistentVolume to a claim, both in the version that was decided on.

    ``is_ours`` marks that a controller bound it, and not its author.
    """

    volume: str
    version: str
    namespace: str
    claim: str
    claim_uid: str
    claim_version: str
    is_ours: bool

    @property
    def key(self) -> str:
        """The object that is written."""
        return self.volume


class SelectNode(msgspec.Struct, frozen=True):
    """Tell the provisioner of a claim on which node the claim's volume is needed."""

    namespace: str
    claim: str
    claim_uid: str
    version: str
    node_name: str

    @property
    def key(self) -> str:
        """The object that is written."""
        return f"{self.namespace}/{self.claim}"


class WriteVolumes(msgspec.Struct, frozen=True):
    """Write what binds a pod's claims; the answer has the same uid and ``attempt``."""

    uid: str
    attempt: int
    changes: tuple[GiveVolume | SelectNode, ...]


class ReserveClaim(msgspec.Struct, frozen=True):
    """Reserve a ResourceClaim for a pod, and allocate it first if it is not ``is_allocated``.

    ``allocation`` is what is written, or what the claim must still have. ``version`` is the claim's
    when it was decided.
    """

    namespace: str
    name: str
    uid: str
    version: str
    allocation: Allocation
    is_allocated: bool = False
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class CreateClaim(msgspec.Struct, frozen=True):
    """Create the claim for the extended resources of a pod, allocated and reserved for it, and name
    it in the pod's status.
    """

    namespace: str
    name: str
    asked: ExtendedRequests
    allocation: Allocation

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class ReserveClaims(msgspec.Struct, frozen=True):
    """Write what a pod needs of its claims; the answer has the same uid and ``attempt``."""

    uid: str
    pod_name: str
    attempt: int
    claims: tuple[ReserveClaim, ...]
    extended: CreateClaim | None = None


class ClaimRef(msgspec.Struct, frozen=True):
    """A ResourceClaim by name and uid."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class CreatedClaim(msgspec.Struct, frozen=True):
    """The claim for the extended resources of a pod; it may not exist."""

    namespace: str
    name: str
    pod_name: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class ReleaseClaims(msgspec.Struct, frozen=True):
    """Take back the reservations of a pod (``uid``) that is not bound.

    A claim that nothing else has reserved is also deallocated if ``deallocate``. ``created`` is
    deleted.
    """

    uid: str
    claims: tuple[ClaimRef, ...]
    deallocate: bool = False
    created: CreatedClaim | None = None


class CompleteStep(msgspec.Struct, frozen=True):
    """A step before the Binding of an assumed pod is complete; after the last one it is sent."""

    uid: str
    step: str


class DropPlacement(msgspec.Struct, frozen=True):
    """Forget the placement of a pod whose Binding will not be sent."""

    uid: str


RecorderAction = (
    RecordPodEvent
    | RecordNodeEvent
    | RecordOwnerEvent
    | RecordScheduled
    | RecordUnscheduled
    | RecordWaiting
    | RecordPreempted
    | DropCondition
    | ForgetPod
)
Action = (
    RecorderAction
    | LookUpPod
    | RecreatePod
    | PreemptPods
    | WriteGroupState
    | ReadGroupOwner
    | RequestPartitions
    | SetMigConfig
    | WriteVolumes
    | ReserveClaims
    | ReleaseClaims
    | CompleteStep
    | DropPlacement
    | MigrationAction
)
