"""Whether the devices of an allocated claim are ready for the Binding of a pod.

Mirrors ``isClaimReadyForBinding`` of kube-scheduler's dynamicresources: a driver writes the
conditions into ``status.devices``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.model.dra.allocation import DeviceResult
from scheduler.model.dra.claim import DeviceStatus, ResourceClaim

_TRUE: Final = "True"


class BindingConditions(msgspec.Struct, frozen=True):
    """The conditions that are not true yet, and what failed; both empty where all are true."""

    waits_for: tuple[str, ...] = ()
    failed: str = ""


def binding_conditions(claim: ResourceClaim) -> BindingConditions:
    """The binding conditions of the claim's devices."""
    waits: list[str] = []
    for result in claim.allocation.results if claim.allocation is not None else ():
        if not result.binding_conditions:
            continue
        conditions = _status_of(claim, result).conditions
        for one in result.binding_failure_conditions:
            if conditions.get(one) == _TRUE:
                return BindingConditions(failed=f"device {result.id} has the condition {one}")
        waits += _missing(result, conditions)
    return BindingConditions(tuple(waits))


def _missing(result: DeviceResult, conditions: dict[str, str]) -> Iterator[str]:
    for one in result.binding_conditions:
        if conditions.get(one) != _TRUE:
            yield f"condition {one} of device {result.id}"


def _status_of(claim: ResourceClaim, result: DeviceResult) -> DeviceStatus:
    for one in claim.devices:
        if one.device == result.id and one.share_id == result.share_id:
            return one
    return DeviceStatus(result.id)
