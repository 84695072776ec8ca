"""The Lease of the leader election, and the rule for the next step. Pure.

Its metadata goes back to the API server unchanged, except for one annotation: the address at which
the leader answers the other replicas' queries.
"""

from __future__ import annotations

import enum
from typing import Final, Protocol

import msgspec

from scheduler.model import well_known


class LeaderTerm(Protocol):
    """This process's part in leadership, as the shells and services read it."""

    @property
    def epoch(self) -> int | None:
        """The term of the lease that this process held last."""

    def leads(self) -> bool:
        """Whether this process may decide and send now."""


class DecisionTerm:
    """The term in which something is decided, which is the current one: what is sent later belongs
    to it. Another leader may have decided otherwise before this process leads again.
    """

    def __init__(self, term: LeaderTerm) -> None:
        self._term = term
        self.epoch: Final = term.epoch

    def lasts(self) -> bool:
        """Whether what was decided in this term may be sent now."""
        return self._term.leads() and self._term.epoch == self.epoch


class LeaseSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """``coordination.k8s.io/v1`` LeaseSpec."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Annotated(msgspec.Struct):
    annotations: dict[str, str] | None = None


class Lease(msgspec.Struct, rename="camel"):
    """The fields of a Lease that are read."""

    metadata: msgspec.Raw
    spec: LeaseSpec
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"

    @property
    def address(self) -> str:
        """The address at which the holder answers other replicas; empty if there is none."""
        if not self.spec.holder_identity:
            return ""
        annotations = msgspec.json.decode(self.metadata, type=_Annotated).annotations
        return (annotations or {}).get(well_known.LEADER_ADDRESS, "")


class Step(enum.Enum):
    """The next step of the election."""

    CREATE = "create"
    ACQUIRE = "acquire"
    RENEW = "renew"
    WAIT = "wait"


def next_step(lease: Lease | None, me: str, unchanged_s: float, duration_s: float) -> Step:
    """The next step, from the lease as read and the time that it was unchanged."""
    if lease is None:
        return Step.CREATE
    holder = lease.spec.holder_identity
    if holder == me:
        return Step.RENEW
    if not holder or unchanged_s >= (lease.spec.lease_duration_seconds or duration_s):
        return Step.ACQUIRE
    return Step.WAIT


def with_address(metadata: msgspec.Raw, address: str) -> msgspec.Raw:
    """The metadata with the holder's address, or without one if it is empty."""
    fields = msgspec.json.decode(metadata, type=dict[str, msgspec.Raw])
    found = fields.get("annotations")
    annotations = msgspec.json.decode(found, type=dict[str, str] | None) if found else None
    wanted = {k: v for k, v in (annotations or {}).items() if k != well_known.LEADER_ADDRESS}
    if address:
        wanted[well_known.LEADER_ADDRESS] = address
    if wanted == (annotations or {}):
        return metadata
    fields["annotations"] = msgspec.Raw(msgspec.json.encode(wanted))
    return msgspec.Raw(msgspec.json.encode(fields))
