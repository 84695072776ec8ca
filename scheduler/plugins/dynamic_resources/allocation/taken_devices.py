"""The devices that a search has taken so far, and what it may still take.

Mirrors ``allocateDevice`` and ``rollbackDevice`` of kube-scheduler's structured allocator.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from scheduler.model.dra.claim import DeviceRequest, ExactRequest, ResourceClaim
from scheduler.model.dra.device import Device, DeviceId
from scheduler.model.dra.resource_slice import PoolId
from scheduler.model.node import Node
from scheduler.plugins.dynamic_resources.allocation.capacity import admits, consumed_by
from scheduler.plugins.dynamic_resources.allocation.constraints import AttributeConstraint
from scheduler.plugins.dynamic_resources.allocation.counters import PoolCounters
from scheduler.plugins.dynamic_resources.allocation.requests import (
    OPTIONAL_NODE_OPERATIONS,
    Alternative,
    Candidate,
    Matches,
    SelectorFailure,
)
from scheduler.plugins.dynamic_resources.allocation.results import Chosen
from scheduler.state.dra.pool import Pool
from scheduler.state.dra.store import DraStore

_NONE: Final[Mapping[str, int]] = {}


class Problem(enum.Enum):
    """Why a node cannot have the claims."""

    NO_DEVICES = "cannot allocate all claims"
    INVALID_POOL = "invalid resource pools were encountered"
    SELECTOR = "a selector failed"
    REQUEST = "a request cannot be met"
    LIMIT = "the search takes too many steps"


class NoAllocation(msgspec.Struct, frozen=True):
    """No allocation on the node; ``text`` says more than the problem, if anything does."""

    problem: Problem
    text: str = ""


class AllocationInput(msgspec.Struct, frozen=True):
    """What a search reads: the node and its pools, the state, and how selectors are evaluated.

    ``known`` are the devices that requests with equal selectors match, as far as it is known.
    """

    node: Node
    pools: Sequence[Pool]
    store: DraStore
    matches: Matches
    known: dict[tuple[str, tuple[str, ...]], dict[DeviceId, bool]] = msgspec.field(
        default_factory=dict
    )

    def alternative(self, request: DeviceRequest, exact: ExactRequest) -> Alternative | None:
        """One way to meet a request; None where its class does not exist."""
        device_class = self.store.classes.get(exact.class_name)
        if device_class is None or device_class.unread:
            return None
        known = self.known.setdefault((exact.class_name, exact.selectors), {})
        return Alternative(request, exact, device_class, self.node, self.matches, known)


class _Shares:
    """The shares of a device that a search has taken."""

    __slots__ = ("consumed", "count")

    def __init__(self) -> None:
        self.count = 0
        self.consumed: dict[str, int] = {}

    def add(self, consumed: Mapping[str, int], delta: int) -> None:
        self.count += delta
        for name, amount in consumed.items():
            self.consumed[name] = self.consumed.get(name, 0) + delta * amount


class TakenDevices:
    """The devices of each claim, which are given back in reverse order."""

    def __init__(self, given: AllocationInput, claims: Sequence[ResourceClaim]) -> None:
        self.count = 0
        self._given = given
        self._in_use = given.store.in_use
        self._chosen: list[list[Chosen]] = [[] for _ in claims]
        self._constraints = [
            [AttributeConstraint(one) for one in claim.constraints] for claim in claims
        ]
        #: Whole devices, and the claims that have them.
        self._whole: dict[DeviceId, list[int]] = {}
        self._shares: dict[DeviceId, _Shares] = {}
        self._counters: dict[PoolId, PoolCounters] = {}

    def of_claim(self, claim: int) -> Sequence[Chosen]:
        """The devices of one claim."""
        return self._chosen[claim]

    def every(self) -> list[Chosen]:
        """The devices of all claims."""
        return [one for some in self._chosen for one in some]

    def take(
        self, claim: int, asked: Alternative, candidate: Candidate
    ) -> Chosen | NoAllocation | None:
        """Take a device for a request; None if the request cannot have it now."""
        fits = self._fits(claim, asked, candidate)
        if isinstance(fits, NoAllocation):
            return fits
        device = candidate.device
        is_charged = bool(device.consumes) and not self._is_charged(device)
        if not fits or (is_charged and not self._counters_of(candidate.pool).take(device)):
            return None
        refused = self._constrain(claim, asked, device)
        if refused is not None:
            if is_charged:
                self._counters_of(candidate.pool).give_back(device)
            # Of mode All it is this device or none: only a changed claim can be allocated.
            is_final = asked.is_all and bool(refused)
            return NoAllocation(Problem.REQUEST, refused) if is_final else None
        return self._enter(
            claim, Chosen(asked, candidate, self._consumed(asked, device), is_charged)
        )

    def give_back(self, claim: int, chosen: Chosen) -> None:
        """Give back the device that was taken last."""
        device = chosen.candidate.device
        self.count -= 1
        self._chosen[claim].pop()
        if device.allow_multiple:
            shares = self._shares[device.id]
            shares.add(chosen.consumed, -1)
            if not shares.count:
                del self._shares[device.id]
        else:
            self._whole[device.id].pop()
        self._release(claim, chosen.asked, len(self._constraints[claim]))
        if chosen.has_counters:
            self._counters_of(chosen.candidate.pool).give_back(device)

    def could_have(self, asked: Alternative, device: Device) -> bool | NoAllocation:
        """Whether the device had what is requested of its capacities, if nothing used it."""
        return self._has_capacity(asked, device, _NONE, _NONE)

    def _enter(self, claim: int, chosen: Chosen) -> Chosen:
        device = chosen.candidate.device
        if device.allow_multiple:
            self._shares.setdefault(device.id, _Shares()).add(chosen.consumed, 1)
        else:
            self._whole.setdefault(device.id, []).append(claim)
        self._chosen[claim].append(chosen)
        self.count += 1
        return chosen

    # --- checks ----------------------------------------------------------------------

    def _fits(self, claim: int, asked: Alternative, candidate: Candidate) -> bool | NoAllocation:
        """Whether the request can have the device, but for counters, taints and constraints."""
        device = candidate.device
        if self._is_taken(claim, asked, device):
            return False
        fits: bool | NoAllocation = True
        if not asked.is_all:  # else its selectors match, and its capacity comes last
            selects = asked.selects(candidate)
            if isinstance(selects, SelectorFailure):
                return NoAllocation(Problem.SELECTOR, selects.text)
            fits = selects and self._has_capacity_left(asked, device)
        if fits is True and candidate.slice.skip_node_operations:
            return OPTIONAL_NODE_OPERATIONS in self._given.node.declared_features
        return fits

    def _is_taken(self, claim: int, asked: Alternative, device: Device) -> bool:
        """Whether the device is in use; with admin access only the same claim's use counts."""
        taken = self._whole.get(device.id)
        if asked.exact.admin_access:
            return taken is not None and claim in taken
        if taken or self._in_use.is_whole(device.id):
            return True
        # A driver may stop to share a device that has shares.
        return not device.allow_multiple and self._in_use.is_shared(device.id)

    def _is_charged(self, device: Device) -> bool:
        """Whether another share of the device has its counters already."""
        return device.allow_multiple and (
            device.id in self._shares or self._in_use.is_shared(device.id)
        )

    def _has_capacity_left(self, asked: Alternative, device: Device) -> bool | NoAllocation:
        shares = self._shares.get(device.id)
        mine = shares.consumed if shares is not None else _NONE
        return self._has_capacity(asked, device, self._in_use.consumed(device.id), mine)

    def _has_capacity(
        self, asked: Alternative, device: Device, *in_use: Mapping[str, int]
    ) -> bool | NoAllocation:
        request = asked.exact.capacity
        if not request and device.has_plain_capacity:
            return True
        if not request.keys() <= device.capacities.keys():
            return False
        consumed = consumed_by(request, device.capacities)
        if isinstance(consumed, str):
            text = f"request {asked.name} on device {device.title}: {consumed}"
            return NoAllocation(Problem.REQUEST, text)
        return admits(consumed, device.capacities, *in_use)

    @staticmethod
    def _consumed(asked: Alternative, device: Device) -> dict[str, int]:
        """What a share takes; a whole device consumes no amounts."""
        if not device.allow_multiple:
            return {}
        consumed = consumed_by(asked.exact.capacity, device.capacities)
        assert not isinstance(consumed, str), "its capacity was checked"
        return consumed

    def _counters_of(self, pool: Pool) -> PoolCounters:
        found = self._counters.get(pool.id)
        if found is None:
            found = self._counters[pool.id] = PoolCounters(pool, self._in_use)
        return found

    # --- taints and constraints ------------------------------------------------------

    def _constrain(self, claim: int, asked: Alternative, device: Device) -> str | None:
        """Add the device to the constraints of its claim; what refuses it otherwise, with a text
        only where a constraint does.
        """
        if not asked.tolerates(self._given.store.taints(device)):
            return ""
        constraints = self._constraints[claim]
        for at, one in enumerate(constraints):
            if one.is_about(asked.request.name, asked.name) and not one.add(device):
                self._release(claim, asked, at)
                return f"request {asked.name}: device {device.title} does not meet {one.text}"
        if asked.is_all and self._has_capacity_left(asked, device) is not True:
            self._release(claim, asked, len(constraints))
            return ""
        return None

    def _release(self, claim: int, asked: Alternative, count: int) -> None:
        """Remove the last device from the first constraints of a claim."""
        for one in self._constraints[claim][:count]:
            if one.is_about(asked.request.name, asked.name):
                one.remove_last()
