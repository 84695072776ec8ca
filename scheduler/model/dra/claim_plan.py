"""What binding a pod to a node does to its ResourceClaims: decided before anything is written."""

from __future__ import annotations

import msgspec

from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.dra.extended_resources import ExtendedRequests


class PlannedClaim(msgspec.Struct, frozen=True):
    """A claim is allocated and reserved for the pod; only reserved without an ``allocation``.

    ``key`` is ``namespace/name``.
    """

    key: str
    uid: str
    allocation: Allocation | None = None

    def __str__(self) -> str:
        name = self.key.partition("/")[2]
        if self.allocation is None:
            return f"{name} (allocated)"
        devices = " ".join(map(_device, self.allocation.results))
        return f"{name} ({devices or 'no devices'})"


def _device(result: DeviceResult) -> str:
    """A device; of ``firstAvailable`` with the subrequest that it is for."""
    return f"{result.id} as {result.request}" if "/" in result.request else str(result.id)


class NewClaim(msgspec.Struct, frozen=True):
    """The claim that is created for the extended resources of a pod, and then allocated."""

    asked: ExtendedRequests
    allocation: Allocation

    def __str__(self) -> str:
        resources = dict.fromkeys(one.resource for one in self.asked.mappings)
        devices = " ".join(str(one.id) for one in self.allocation.results)
        return f"a claim for {' and '.join(resources)} ({devices})"


class ClaimPlan(msgspec.Struct, frozen=True):
    """The claims of a pod on the node that was chosen, in the order of the pod.

    ``extended`` does not exist yet.
    """

    node_name: str
    claims: tuple[PlannedClaim, ...] = ()
    extended: NewClaim | None = None

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """What is to be allocated."""
        found = tuple(one.allocation for one in self.claims if one.allocation is not None)
        return found if self.extended is None else (*found, self.extended.allocation)

    def __str__(self) -> str:
        every = (*self.claims, *((self.extended,) if self.extended is not None else ()))
        return " and ".join(map(str, every))
