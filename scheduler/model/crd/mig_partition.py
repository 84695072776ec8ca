"""Dynamic MIG: the instances that exist on a node, and those that are requested.

The API object is ``migpartitions.gpu-scheduler.io`` (``model/crd/mig_partition_codec``), one for
each node: the scheduler writes the instances that must exist, the node's operator writes the
instances that do (docs/mig-dynamic.md).
"""

from __future__ import annotations

import enum

import msgspec

from scheduler.model.gpu.device import MigPlacement


class PartitionState(enum.Enum):
    """The state of an instance."""

    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"


class MigInstance(msgspec.Struct, frozen=True, gc=False):
    """An instance in the operator's status; ``deadline`` is that of the request that it answers.

    A failed one does not exist: it is the response to a request.
    """

    mig_placement: MigPlacement = msgspec.field(name="spot")
    state: PartitionState = PartitionState.READY
    uuid: str = ""
    message: str = ""
    deadline: str = ""


class PartitionRequest(msgspec.Struct, frozen=True, gc=False):
    """An instance that must exist: its pod, and the deadline of the request.

    Without a ``deadline`` it is allocated already, and no status is awaited.
    """

    mig_placement: MigPlacement = msgspec.field(name="spot")
    pod_uid: str
    deadline: str = ""


class NodePartitions(msgspec.Struct, frozen=True):
    """One node's object: requested and existing instances; ``unread`` is the decoding problem, if
    any.
    """

    node_name: str
    orders: tuple[PartitionRequest, ...] = ()
    instances: tuple[MigInstance, ...] = ()
    epoch: int | None = None
    unread: str = ""
