"""Dynamic MIG: the instances that exist on a node, and those that are requested.

The API object is ``migpartitions.gpu-scheduler.io`` (``model/crd/mig_partition_codec``), one for
each node: the scheduler writes the instances that must exist, the node's operator writes the
instances that do (docs/mig-dynamic.md)."""

from __future__ import annotations

import enum

import msgspec

from scheduler.model.gpu.device import MigPlacement


class PartitionState(enum.Enum):
    """How far an instance is."""

    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"


class MigInstance(msgspec.Struct, frozen=True, gc=False):
    """An instance as the operator tells of it; ``deadline`` is that of the request that it answers.

    A failed one does not exist: it is the answer to a request.
    """

    spot: MigPlacement
    state: PartitionState = PartitionState.READY
    uuid: str = ""
    message: str = ""
    deadline: str = ""


class PartitionRequest(msgspec.Struct, frozen=True, gc=False):
    """An instance that must exist: for which pod, and until when an answer is waited for.

    Without a ``deadline`` it is held already, and nothing is waited for.
    """

    spot: MigPlacement
    pod_uid: str
    deadline: str = ""


class NodePartitions(msgspec.Struct, frozen=True):
    """One node's object: what we asked for, what there is; ``unread`` says why it tells neither."""

    node_name: str
    orders: tuple[PartitionRequest, ...] = ()
    instances: tuple[MigInstance, ...] = ()
    epoch: int | None = None
    unread: str = ""
