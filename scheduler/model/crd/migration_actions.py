"""The requests of a migration, as values; ``bind/migration_worker`` sends them."""

from __future__ import annotations

import msgspec

from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_result import MigrationEnd
from scheduler.model.pods.pod import Owner, Pod


class ReadOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Read the current owner of a pod; the pod itself may be deleted.

    ``migration_id`` is the open migration that needs the result, if there is one.
    """

    namespace: str
    pod_name: str
    pod_uid: str
    owner: Owner
    revision: str
    index: int | None = None
    labels: dict[str, str] = {}
    migration_id: str = ""


class CreateMigration(msgspec.Struct, frozen=True):
    """Create a migration object."""

    migration: Migration


class EvictPod(msgspec.Struct, frozen=True):
    """Evict the pod of a migration; with a ``version`` only if the pod is still unchanged."""

    migration: Migration
    version: str = ""


class CompleteMigration(msgspec.Struct, frozen=True):
    """Write the result into the status of a migration object."""

    migration: Migration
    end: MigrationEnd


class DeleteMigration(msgspec.Struct, frozen=True):
    """Delete a migration object."""

    migration: Migration


MigrationAction = ReadOwner | CreateMigration | EvictPod | CompleteMigration | DeleteMigration


def read_owner_of(pod: Pod, revision: str, index: int | None, migration_id: str = "") -> ReadOwner:
    """Read the owner of a pod that exists."""
    assert pod.owner is not None, "only pods with an owner are migrated"
    return ReadOwner(
        namespace=pod.namespace,
        pod_name=pod.name,
        pod_uid=pod.uid,
        owner=pod.owner,
        revision=revision,
        index=index,
        labels=pod.labels,
        migration_id=migration_id,
    )


def read_owner_for(migration: Migration) -> ReadOwner:
    """Read the owner of an open migration."""
    return ReadOwner(
        namespace=migration.namespace,
        pod_name=migration.pod_name,
        pod_uid=migration.pod_uid,
        owner=migration.owner,
        revision=migration.revision,
        index=migration.index,
        migration_id=migration.id,
    )
