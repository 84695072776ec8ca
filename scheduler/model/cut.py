"""MIG instances that are cut to order: what exists on a node, and what we asked for.

The API's object for it is ``migcuts.gpu-scheduler.io`` (``model/migcut``), one for each node: we
write which instances must exist, the node's operator answers which ones do (docs/mig-dynamic.md).
"""

from __future__ import annotations

import enum

import msgspec

from scheduler.model.device import Spot


class CutState(enum.Enum):
    """How far an instance is."""

    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"


class Instance(msgspec.Struct, frozen=True, gc=False):
    """An instance as the operator tells of it; ``deadline`` is that of the request that it answers.

    A failed one does not exist: it is the answer to a request.
    """

    spot: Spot
    state: CutState = CutState.READY
    uuid: str = ""
    message: str = ""
    deadline: str = ""


class Order(msgspec.Struct, frozen=True, gc=False):
    """An instance that must exist: for which pod, and until when an answer is waited for.

    Without a ``deadline`` it is held already, and nothing is waited for.
    """

    spot: Spot
    pod_uid: str
    deadline: str = ""


class NodeCuts(msgspec.Struct, frozen=True):
    """One node's object: what we asked for, what there is; ``unread`` says why it tells neither."""

    node_name: str
    orders: tuple[Order, ...] = ()
    instances: tuple[Instance, ...] = ()
    epoch: int | None = None
    unread: str = ""
