"""What the claims of a pod would get on one node, or why that node will not do.

The answer depends on the pools of the node, on what is allocated from them and on the claims' specs
only, so it is kept for the next pod with equal claims until one of these changes. It does not name
the claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.framework.budget import Budget
from scheduler.framework.plugin import Reasons
from scheduler.framework.view import View
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.binding_conditions import binding_conditions
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import ClaimPlan, NewClaim, PlannedClaim
from scheduler.model.node import Node
from scheduler.model.reasons.reason import Reason
from scheduler.plugins.dynamic_resources import codes
from scheduler.plugins.dynamic_resources.allocation.allocator import Order, allocate, first_fit
from scheduler.plugins.dynamic_resources.allocation.best_fit import best_fit
from scheduler.plugins.dynamic_resources.allocation.node_loss import node_loss
from scheduler.plugins.dynamic_resources.allocation.requests import (
    DEVICES_PER_STEP,
    OPTIONAL_NODE_OPERATIONS,
)
from scheduler.plugins.dynamic_resources.allocation.selectors import matches
from scheduler.plugins.dynamic_resources.allocation.taken_devices import (
    AllocationInput,
    NoAllocation,
    Problem,
)
from scheduler.plugins.dynamic_resources.extended_claim import (
    ExtendedResources,
    PlannedExtendedClaim,
)
from scheduler.plugins.dynamic_resources.map_line import MapLine
from scheduler.plugins.dynamic_resources.pod_claims import FoundClaims
from scheduler.plugins.dynamic_resources.shortage import shortage
from scheduler.state.index.node_memo import NodeAnswers

#: Steps of one search on one node.
NODE_STEPS_MAX: Final = 20_000
#: Of a sentence about one node.
TEXT_MAX: Final = 400
_ELSEWHERE: Final = "resourceclaim not available on the node"
_CODES: Final = {
    Problem.NO_DEVICES: codes.DEVICES_NOT_AVAILABLE,
    Problem.INVALID_POOL: codes.DEVICE_POOL_INVALID,
    Problem.SELECTOR: codes.DEVICE_SELECTOR_FAILED,
    Problem.REQUEST: codes.DEVICE_REQUEST_IMPOSSIBLE,
    Problem.LIMIT: codes.DEVICE_SEARCH_LIMIT,
}
#: Best fit has tried every way: first fit finds none either.
_CONCLUSIVE: Final = (Problem.NO_DEVICES, Problem.INVALID_POOL)


class NodeClaims(msgspec.Struct, frozen=True):
    """``reasons`` against a node, or the allocation of each claim that waits for one.

    ``loss`` is what the node loses by them, to compare nodes: less is better. ``steps`` is what the
    search took.
    """

    reasons: Reasons = ()
    allocations: tuple[Allocation, ...] = ()
    loss: float = 0.0
    steps: int = 0


_NOTHING: Final = NodeClaims()


class _Wanted(msgspec.Struct, frozen=True):
    """The claims that are to be allocated on some nodes, and the kept answers about them."""

    claims: tuple[ResourceClaim, ...]
    shape: bytes
    kept: NodeAnswers
    extended: PlannedExtendedClaim | None = None


class _Kept(msgspec.Struct, frozen=True):
    """An answer, and the version of the node's devices that it holds for."""

    version: tuple[int, int] | None
    answer: NodeClaims


class ClaimPlanner:
    """One pod's claims on one node after the other; ``work`` counts the steps of all searches.

    A node may need one claim more, for ``extended`` resources. It holds for one decision: what it
    reads must not change meanwhile.
    """

    def __init__(
        self,
        view: View,
        found: FoundClaims,
        work: Budget,
        extended: ExtendedResources | None = None,
    ) -> None:
        self._store = view.dra
        self._claims = found
        self._allocated, self._waiting = found.allocated, found.waiting
        self._extended = extended
        self._work = work
        self._memo = view.nodes.memo
        #: By the set of extended resources that DRA serves on a node.
        self._wanted: dict[frozenset[str], _Wanted] = {}

    def reasons(self, node: Node, line: MapLine | None = None) -> Reasons:
        """Why the node cannot have the claims, or not with the devices of a line of a map.

        Those that wait come first, as in kube-scheduler: to give up the others would not help.
        """
        reasons = self.on_node(node, line).reasons
        if reasons:
            return reasons
        for claim in self._allocated:
            reason = unavailable(claim, node)
            if reason is not None:
                return (reason,)
        return ()

    def on_node(self, node: Node, line: MapLine | None = None) -> NodeClaims:
        """What the claims that wait would get on a node."""
        wanted = self._wanted_on(node)
        if line is not None:
            return self._at_line(node, wanted, line)
        if wanted is None:
            return _NOTHING
        version = self._store.version(node.name)
        known = wanted.kept.get(node.name)
        if version is not None and isinstance(known, _Kept) and known.version == version:
            answer = known.answer
        else:
            if self._work.is_over:
                return _too_many_steps(self._work.limit)
            answer = self._searched(node, wanted)
            if version is not None:
                wanted.kept.keep(node.name, _Kept(version, answer))
        self._work.spend(answer.steps)
        return _too_many_steps(self._work.limit) if self._work.is_over else answer

    def shape_on(self, node: Node) -> bytes:
        """Equal where claims that wait ask for the same on a node; empty without claims."""
        wanted = self._wanted_on(node)
        return wanted.shape if wanted is not None else b""

    def _at_line(self, node: Node, wanted: _Wanted | None, line: MapLine) -> NodeClaims:
        """The same with the devices of a line; it is tried once, so the answer is not kept."""
        answer = _NOTHING
        if wanted is not None:
            answer = self._searched(node, wanted, line)
            if not self._work.spend(answer.steps):
                return _too_many_steps(self._work.limit)
        for reason in answer.reasons:
            is_of_line = reason.code is codes.DEVICES_NOT_AVAILABLE
            return NodeClaims((line.unavailable(reason) if is_of_line else reason,))
        before = tuple(one.allocation for one in self._allocated if one.allocation is not None)
        problem = line.mismatch((*before, *answer.allocations))
        return answer if problem is None else NodeClaims((problem,))

    def plan(self, node: Node, line: MapLine | None = None) -> ClaimPlan:
        """The plan for a node that can have the claims, as ``reasons`` said."""
        answer = self.on_node(node, line)
        assert not answer.reasons, f"{node.name} passed DynamicResources and has no plan"
        found = iter(answer.allocations)
        claims = tuple(
            PlannedClaim(one.key, one.uid, next(found) if one.allocation is None else None)
            for one in self._claims.claims
        )
        wanted = self._wanted_on(node)
        planned = wanted.extended if wanted is not None else None
        extended = NewClaim(planned.asked, next(found)) if planned is not None else None
        return ClaimPlan(node.name, claims, extended)

    def _wanted_on(self, node: Node) -> _Wanted | None:
        """The claims that wait for devices of a node; None where there are none."""
        planned = self._extended.on_node(node) if self._extended is not None else None
        waiting = self._waiting
        if planned is None and not waiting:
            return None
        key = planned.resources if planned is not None else frozenset[str]()
        wanted = self._wanted.get(key)
        if wanted is None:
            claims = waiting if planned is None else (*waiting, planned.claim)
            shape = msgspec.msgpack.encode(
                [(one.requests, one.constraints, one.config) for one in claims]
            )
            kept = self._memo.of((codes.STAGE, shape))
            wanted = self._wanted[key] = _Wanted(claims, shape, kept, planned)
        return wanted

    def _searched(self, node: Node, wanted: _Wanted, line: MapLine | None = None) -> NodeClaims:
        claims, orders = wanted.claims, None
        if line is not None:
            asked_for = wanted.extended.asked if wanted.extended is not None else None
            orders = (
                line.narrowed(best_fit(self._store.in_use), asked_for),
                line.narrowed(first_fit, asked_for),
            )
        pools = self._store.pools.on_node(node.name, node.labels)
        given = AllocationInput(node, pools, self._store, matches)
        looks = Budget(NODE_STEPS_MAX * DEVICES_PER_STEP)
        missing = shortage(given, claims, looks)
        steps = 1 + looks.spent // DEVICES_PER_STEP
        if missing is not None:
            return NodeClaims((missing,), steps=steps)
        found, searched = best_allocation(given, claims, orders)
        steps += searched
        if isinstance(found, NoAllocation):
            is_used = any(self._store.in_use.of_pool(pool.id) for pool in pools)
            return NodeClaims((_reason(found, is_used=is_used),), steps=steps)
        return NodeClaims((), found, node_loss(pools, found, self._store.in_use), steps)


def best_allocation(
    given: AllocationInput,
    claims: Sequence[ResourceClaim],
    orders: tuple[Order, Order] | None = None,
) -> tuple[tuple[Allocation, ...] | NoAllocation, int]:
    """Best fit, and the steps that it took; first fit where it was not completed, because
    kube-scheduler may find a way.
    """
    work = Budget(NODE_STEPS_MAX)
    first, second = orders or (best_fit(given.store.in_use), first_fit)
    found = allocate(given, claims, work, first)
    if not isinstance(found, NoAllocation) or found.problem in _CONCLUSIVE:
        return found, work.spent
    again = Budget(NODE_STEPS_MAX)
    return allocate(given, claims, again, second), work.spent + again.spent


def unavailable(claim: ResourceClaim, node: Node) -> Reason | None:
    """Why a claim that is allocated cannot be used on a node."""
    allocation = claim.allocation
    assert allocation is not None
    failed = binding_conditions(claim).failed
    if failed:
        text = f"{_ELSEWHERE} (claim {claim.name}; {failed})"
    elif not allocation.admits(node.name, node.labels):
        text = f"{_ELSEWHERE} (claim {claim.name})"
    elif (
        any(one.skip_node_operations for one in allocation.results)
        and OPTIONAL_NODE_OPERATIONS not in node.declared_features
    ):
        text = f"{_ELSEWHERE} (claim {claim.name}; feature {OPTIONAL_NODE_OPERATIONS})"
    else:
        return None
    return Reason(code=codes.RESOURCE_CLAIM_ELSEWHERE, text=text, resolvable=False)


def _reason(found: NoAllocation, *, is_used: bool) -> Reason:
    """``is_used`` if claims have devices of the node: their end may help."""
    text = found.text
    match found.problem:
        case Problem.NO_DEVICES:
            text = f"{found.problem.value} (shared counters or capacity or constraints)"
        case Problem.INVALID_POOL:
            text = f"{found.problem.value} ({found.text})"
        case Problem.REQUEST:
            text = f"impossible request: {found.text}"
        case Problem.LIMIT:
            text = f"the search for devices takes more than {NODE_STEPS_MAX} steps"
    can_help = is_used and found.problem is Problem.NO_DEVICES
    return Reason(code=_CODES[found.problem], text=_one_line(text), resolvable=can_help)


def _too_many_steps(limit: int) -> NodeClaims:
    text = f"the search for devices takes more than {limit} steps"
    return NodeClaims((Reason(code=codes.DEVICE_SEARCH_LIMIT, text=text, resolvable=False),))


def _one_line(text: str) -> str:
    """A countable text: readers split the list of reasons at commas."""
    return text.replace(", ", " ").replace(",", " ").replace("\n", " ")[:TEXT_MAX]
