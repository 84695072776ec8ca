"""Reads the objects of builds up to commit 8db2d48, from before the API had its present names.

The one place that knows them::

    annotation gpu-scheduler.io/move    now gpu-scheduler.io/migration
    migrules (MigRule)                  now podmigrations; ``spec.move`` is ``spec.type`` now,
                                        ``status.ended`` is ``status.completionTime``, and the
                                        results have other names
    migcuts (MigCut)                    now migpartitions, with the same fields

The new leader copies these objects (``bind/former_objects``). The former builds do not read the
present names: after a rollback a migration that is in progress gets no further
(docs/upgrade.md).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.model import well_known
from scheduler.model.crd import mig_partition_codec, migration_codec
from scheduler.model.crd.mig_partition import NodePartitions
from scheduler.model.crd.migration import Migration

MIGRATIONS: Final = "migrules"
PARTITIONS: Final = "migcuts"

#: The annotations that were renamed.
ANNOTATIONS: Final = {well_known.FORMER_MIGRATION: well_known.MIGRATION}

_RESULTS: Final = {
    "Done": "Succeeded",
    "WithoutTier": "TierNotGranted",
    "Expired": "DeadlineExceeded",
    "Hindered": "Blocked",
    "Refused": "EvictionRefused",
    "Unwritten": "NotCreated",
}


class _List(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()


def path(plural: str, namespace: str, name: str = "") -> str:
    """The path of the former objects of a namespace, or of one of them."""
    base = (
        f"/apis/{migration_codec.GROUP}/{migration_codec.VERSION}/namespaces/{namespace}/{plural}"
    )
    return f"{base}/{name}" if name else base


def items(content: bytes) -> tuple[bytes, ...]:
    """The objects of a list."""
    return tuple(bytes(one) for one in msgspec.json.decode(content, type=_List).items)


def migration_of(content: bytes) -> Migration:
    """The migration of a MigRule; ``msgspec.ValidationError`` if it cannot be decoded."""
    rule = msgspec.json.decode(content, type=dict[str, Any])
    spec, status = rule.get("spec"), rule.get("status")
    if isinstance(spec, dict):
        spec["type"] = spec.pop("move", None)
    if isinstance(status, dict):
        result = status.get("result")
        status["result"] = _RESULTS.get(result, result) if isinstance(result, str) else ""
        status["completionTime"] = status.pop("ended", "")
    return migration_codec.decode(msgspec.json.encode(rule))


def partitions_of(content: bytes) -> NodePartitions:
    """The instances of a MigCut; ``msgspec.ValidationError`` if it cannot be decoded."""
    return mig_partition_codec.decode(content)
