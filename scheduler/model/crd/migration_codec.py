"""Encodes and decodes PodMigration objects (``podmigrations.gpu-scheduler.io``).

The schema is ``cluster/crd-podmigrations.yaml``. An object that does not decode, such as one
written by hand or by a newer version, raises ``msgspec.ValidationError``.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from scheduler.model.crd.migration import Migration, MigrationKind
from scheduler.model.crd.migration_result import BY_WORD, MigrationEnd
from scheduler.model.dra.device import DeviceId
from scheduler.model.limits import POD_CLAIM_DEVICES_MAX
from scheduler.model.pods.pod import Owner
from scheduler.model.timestamps import epoch, rfc3339

GROUP: Final = "gpu-scheduler.io"
VERSION: Final = "v1alpha1"
KIND: Final = "PodMigration"
PLURAL: Final = "podmigrations"
#: Maximum number of characters of the result's message in the status, and of the change.
TEXT_MAX: Final = 500


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    creation_timestamp: str | None = None


class _PodRef(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str


class _DeviceRef(msgspec.Struct, frozen=True):
    driver: str
    pool: str
    device: str


class _Spec(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    move: MigrationKind = msgspec.field(name="type")
    pod: _PodRef
    owner: Owner
    workload: Owner
    workload_key: str
    revision: str = ""
    index: int | None = None
    change: str
    source: dict[str, int] = msgspec.field(name="from")
    target: dict[str, int] = msgspec.field(name="to")
    node: str
    requests: dict[str, int]
    devices: tuple[_DeviceRef, ...] = ()
    priority: int = 0
    attempt: int
    replicas: int
    deadline: str


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    result: str = ""
    completion_time: str = ""
    message: str = ""


class _Rule(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec
    status: _Status = _Status()


class Named(msgspec.Struct, frozen=True):
    """Any object with a name."""

    metadata: _Meta


_RULE: Final = msgspec.json.Decoder(_Rule)
_NAMED: Final = msgspec.json.Decoder(Named)


def path(namespace: str, name: str = "") -> str:
    """The path of the PodMigrations of a namespace, or of one of them."""
    base = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"
    return f"{base}/{name}" if name else base


def encode(migration: Migration, namespace: str) -> bytes:
    """The object to create in the scheduler's namespace."""
    spec = _Spec(
        move=migration.move,
        pod=_PodRef(migration.namespace, migration.pod_name, migration.pod_uid),
        owner=migration.owner,
        workload=migration.event_target,
        workload_key=migration.workload,
        revision=migration.revision,
        index=migration.index,
        change=migration.change[:TEXT_MAX],
        source=migration.source,
        target=migration.target,
        node=migration.node_name,
        requests=migration.requests,
        devices=tuple(_DeviceRef(*one) for one in migration.devices),
        priority=migration.priority,
        attempt=migration.attempt,
        replicas=migration.replicas,
        deadline=rfc3339(migration.deadline),
    )
    body: dict[str, Any] = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": migration.id, "namespace": namespace},
        "spec": spec,
    }
    return msgspec.json.encode(body)


def encode_end(end: MigrationEnd) -> bytes:
    """The merge patch of ``status`` that completes a migration.

    The time is rounded up, so that a migration counts for at least an hour.
    """
    status = _Status(end.result.word, rfc3339(math.ceil(end.at)), end.text[:TEXT_MAX])
    return msgspec.json.encode({"status": status})


def decode(content: bytes) -> Migration:
    """An object as the watch delivers it."""
    rule = _RULE.decode(content)
    meta, spec = rule.metadata, rule.spec
    return Migration(
        id=meta.name,
        uid=meta.uid,
        made_at=epoch(meta.creation_timestamp or "") or 0.0,
        move=spec.move,
        namespace=spec.pod.namespace,
        pod_name=spec.pod.name,
        pod_uid=spec.pod.uid,
        owner=spec.owner,
        event_target=spec.workload,
        workload=spec.workload_key,
        revision=spec.revision,
        index=spec.index,
        source=spec.source,
        target=spec.target,
        node_name=spec.node,
        requests=spec.requests,
        devices=tuple(
            DeviceId(one.driver, one.pool, one.device)
            for one in spec.devices[:POD_CLAIM_DEVICES_MAX]
        ),
        priority=spec.priority,
        attempt=spec.attempt,
        replicas=spec.replicas,
        deadline=epoch(spec.deadline) or 0.0,
        end=_end(rule.status),
    )


def _end(status: _Status) -> MigrationEnd | None:
    if not status.result:
        return None
    if status.result not in BY_WORD:
        raise msgspec.ValidationError(f"status.result: {status.result!r} is unknown")
    return MigrationEnd(
        BY_WORD[status.result], epoch(status.completion_time) or 0.0, status.message
    )


def name_in(content: bytes) -> str:
    """The name of an object whose other fields may be undecodable."""
    return _NAMED.decode(content).metadata.name
