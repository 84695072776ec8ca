"""The claims of a pod, by container."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fakegpu.node.pod_devices import ClaimRef


class InContainer(msgspec.Struct, frozen=True):
    """A container's reference to a claim of its pod."""

    name: str
    request: str = ""


class InPod(msgspec.Struct, frozen=True, rename="camel"):
    """A claim of a pod: an existing one, or one created for it, whose name is in its status."""

    name: str
    resource_claim_name: str | None = None


class Extended(msgspec.Struct, frozen=True, rename="camel"):
    """The container of an extended resource's request in a claim."""

    container_name: str
    resource_name: str
    request_name: str


class ExtendedStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The claim that was created for a pod's extended resources."""

    resource_claim_name: str = ""
    request_mappings: tuple[Extended, ...] | None = None


#: The containers of a pod, by name, with their claims.
Users = Sequence[tuple[str, Sequence[InContainer]]]


def refs(
    containers: Users,
    specified: Sequence[InPod],
    made: Sequence[InPod],
    extended: ExtendedStatus | None,
) -> tuple[ClaimRef, ...]:
    """Every use of a claim that has a name; the status has precedence."""
    return (*_named(containers, specified, made), *_extended(extended))


def resources(extended: ExtendedStatus | None) -> frozenset[tuple[str, str]]:
    """Containers with the resources that a claim provides, and so no device plugin."""
    found = (extended.request_mappings if extended else None) or ()
    return frozenset((one.container_name, one.resource_name) for one in found)


def _named(
    containers: Users, specified: Sequence[InPod], made: Sequence[InPod]
) -> Iterator[ClaimRef]:
    for claim in {one.name: one for one in (*specified, *made)}.values():
        if not claim.resource_claim_name:
            continue
        uses = [
            (c, use.request) for c, used in containers for use in used if use.name == claim.name
        ]
        # No container refers to it: it is assigned to the first one.
        for container, request in uses or [(containers[0][0], "")]:
            yield ClaimRef(container, claim.resource_claim_name, request)


def _extended(status: ExtendedStatus | None) -> Iterator[ClaimRef]:
    if status is not None:
        for one in status.request_mappings or ():
            yield ClaimRef(one.container_name, status.resource_claim_name, one.request_name)
