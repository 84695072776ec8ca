"""What a move needs done in the world: asked for as values, done by ``bind/migration_worker``."""

from __future__ import annotations

import msgspec

from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_result import MigrationEnd
from scheduler.model.pod import Owner, Pod


class ReadOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Read the owner of a pod as it is now; the pod itself may be gone.

    ``ticket_id`` is the open ticket on whose behalf it is asked, if there is one.
    """

    namespace: str
    pod_name: str
    pod_uid: str
    owner: Owner
    revision: str
    index: int | None = None
    labels: dict[str, str] = {}
    ticket_id: str = ""


class CreateMigration(msgspec.Struct, frozen=True):
    """Create a ticket."""

    ticket: Migration


class EvictPod(msgspec.Struct, frozen=True):
    """Evict a ticket's pod; with a ``version`` only if it is still exactly that."""

    ticket: Migration
    version: str = ""


class CompleteMigration(msgspec.Struct, frozen=True):
    """Write into a ticket how its move ended."""

    ticket: Migration
    end: MigrationEnd


class DeleteMigration(msgspec.Struct, frozen=True):
    """Delete a ticket."""

    ticket: Migration


Errand = ReadOwner | CreateMigration | EvictPod | CompleteMigration | DeleteMigration


def ask_about(pod: Pod, revision: str, index: int | None, ticket_id: str = "") -> ReadOwner:
    """Ask about a pod that is there."""
    assert pod.owner is not None, "only owned pods are moved"
    return ReadOwner(
        namespace=pod.namespace,
        pod_name=pod.name,
        pod_uid=pod.uid,
        owner=pod.owner,
        revision=revision,
        index=index,
        labels=pod.labels,
        ticket_id=ticket_id,
    )


def ask_for(ticket: Migration) -> ReadOwner:
    """Ask about an open ticket's owner."""
    return ReadOwner(
        namespace=ticket.namespace,
        pod_name=ticket.pod_name,
        pod_uid=ticket.pod_uid,
        owner=ticket.owner,
        revision=ticket.revision,
        index=ticket.index,
        ticket_id=ticket.id,
    )
