"""Encodes and decodes MigPartition objects (``migpartitions.gpu-scheduler.io``), one per node.

The schema is ``cluster/crd-migpartitions.yaml``, the protocol is in
docs/mig-dynamic.md: the leader writes ``spec``, the node's operator writes ``status``. An object
that does not decode raises ``msgspec.ValidationError``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from scheduler.model.crd.mig_partition import (
    MigInstance,
    NodePartitions,
    PartitionRequest,
    PartitionState,
)
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.limits import MIG_GPUS_MAX

GROUP: Final = "gpu-scheduler.io"
VERSION: Final = "v1alpha1"
KIND: Final = "MigPartition"
PLURAL: Final = "migpartitions"


#: An index of a GPU or of a slice of its memory.
_Index = Annotated[int, msgspec.Meta(ge=0, le=MIG_GPUS_MAX)]


class _Meta(msgspec.Struct, frozen=True):
    name: str


class _Wanted(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    gpu: _Index
    profile: str
    start: _Index
    pod_uid: str = ""
    deadline: str = ""


class _There(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    gpu: _Index
    profile: str
    start: _Index
    state: PartitionState
    uuid: str = ""
    message: str = ""
    deadline: str = ""


class _Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    epoch: int | None = None
    instances: tuple[_Wanted, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    instances: tuple[_There, ...] = ()


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta


_OBJECT: Final = msgspec.json.Decoder(_Object)
_NAMED: Final = msgspec.json.Decoder(_Named)


def path(namespace: str, name: str = "") -> str:
    """The path of the objects of a namespace, or of one of them."""
    base = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"
    return f"{base}/{name}" if name else base


def encode_spec(orders: Iterable[PartitionRequest], epoch: int | None) -> bytes:
    """The patch with the instances that must exist, and the term of the decision."""
    return msgspec.json.encode({"spec": _spec(orders, epoch)})


def encode(
    node_name: str, orders: Iterable[PartitionRequest], epoch: int | None, namespace: str
) -> bytes:
    """The object to create for a node that has none."""
    body: dict[str, Any] = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": node_name, "namespace": namespace},
        "spec": _spec(orders, epoch),
    }
    return msgspec.json.encode(body)


def encode_status(instances: Iterable[MigInstance]) -> bytes:
    """The operator's patch: the existing instances, and the results of requests."""
    there = tuple(
        _There(
            gpu=one.mig_placement.gpu,
            profile=one.mig_placement.profile,
            start=one.mig_placement.start,
            state=one.state,
            uuid=one.uuid,
            message=one.message,
            deadline=one.deadline,
        )
        for one in instances
    )
    return msgspec.json.encode({"status": _Status(there)})


def decode(content: bytes) -> NodePartitions:
    """An object as the watch delivers it."""
    found = _OBJECT.decode(content)
    return NodePartitions(
        node_name=found.metadata.name,
        orders=tuple(
            PartitionRequest(
                MigPlacement(one.gpu, one.start, one.profile), one.pod_uid, one.deadline
            )
            for one in found.spec.instances
        ),
        instances=tuple(
            MigInstance(
                MigPlacement(one.gpu, one.start, one.profile),
                one.state,
                one.uuid,
                one.message,
                one.deadline,
            )
            for one in found.status.instances
        ),
        epoch=found.spec.epoch,
    )


def name_in(content: bytes) -> str:
    """The name of an object whose other fields may be undecodable."""
    return _NAMED.decode(content).metadata.name


def _spec(orders: Iterable[PartitionRequest], epoch: int | None) -> dict[str, Any]:
    wanted = [
        _Wanted(
            gpu=one.mig_placement.gpu,
            profile=one.mig_placement.profile,
            start=one.mig_placement.start,
            pod_uid=one.pod_uid,
            deadline=one.deadline,
        )
        for one in orders
    ]
    # The list is always there, even if empty: a merge patch changes only the fields that it
    # contains.
    return {"instances": wanted} | ({} if epoch is None else {"epoch": epoch})
