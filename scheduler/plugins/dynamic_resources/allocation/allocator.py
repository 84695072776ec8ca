"""Finds devices for all claims of a pod on one node, or says why there are none.

Mirrors ``structured/internal/experimental/allocator_experimental.go`` of kube-scheduler with all of
its features but derived attributes: one device after the other, depth first, with backtracking over
all claims. ``first_fit`` tries the devices in the order of pools, slices and devices, and finds
kube-scheduler's own result. Another order finds another valid one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from scheduler.framework.budget import Budget
from scheduler.model.dra.allocation import RESULTS_MAX, Allocation
from scheduler.model.dra.claim import DeviceRequest, ResourceClaim
from scheduler.model.limits import POD_CLAIM_DEVICES_MAX
from scheduler.plugins.dynamic_resources.allocation.requests import (
    DEVICES_PER_STEP,
    Alternative,
    Candidate,
    SelectorFailure,
    candidates_of,
)
from scheduler.plugins.dynamic_resources.allocation.results import Chosen, allocation_of
from scheduler.plugins.dynamic_resources.allocation.taken_devices import (
    AllocationInput,
    NoAllocation,
    Problem,
    TakenDevices,
)

#: The order in which a request tries devices, beside those that the search has taken.
Order = Callable[[Alternative, Sequence[Candidate], Sequence[Chosen]], Sequence[Candidate]]


def first_fit(
    _asked: Alternative, candidates: Sequence[Candidate], _taken: Sequence[Chosen]
) -> Sequence[Candidate]:
    """The order of kube-scheduler."""
    return candidates


class _Result(enum.Enum):
    """How a part of the search ended."""

    FOUND = enum.auto()
    NONE = enum.auto()
    #: Every way leads to more devices than a claim can have: no use to try other devices before.
    TOO_MANY = enum.auto()
    #: The search is over: ``Search.problem`` says why.
    STOP = enum.auto()


def allocate(
    given: AllocationInput,
    claims: Sequence[ResourceClaim],
    work: Budget,
    order: Order = first_fit,
) -> tuple[Allocation, ...] | NoAllocation:
    """The allocation of each claim, in their order; ``work`` counts the steps."""
    return Search(given, claims, work, order).run()


class _Place:
    """A request, where the search is: ``claim`` and ``number`` are indexes."""

    __slots__ = ("claim", "number")

    def __init__(self, claim: int, number: int) -> None:
        self.claim = claim
        self.number = number


class Search:
    """One search."""

    def __init__(
        self, given: AllocationInput, claims: Sequence[ResourceClaim], work: Budget, order: Order
    ) -> None:
        self._given = given
        self._claims = claims
        self._work = work
        self._order = order
        self._problem = NoAllocation(Problem.NO_DEVICES)
        self._candidates = candidates_of(given.pools)
        #: The alternatives of each request of each claim, and the one that is chosen.
        self._requests: list[list[list[Alternative]]] = []
        self._selected: list[list[Alternative]] = []
        self._taken = TakenDevices(given, claims)

    def run(self) -> tuple[Allocation, ...] | NoAllocation:
        """The allocations, or why there are none."""
        problem = self._prepare()
        if problem is not None:
            return problem
        ended = self._request(0, 0)
        if ended is _Result.FOUND:
            name = self._given.node.name
            return tuple(
                allocation_of(claim, self._selected[at], self._taken.of_claim(at), name)
                for at, claim in enumerate(self._claims)
            )
        if ended is not _Result.STOP:
            for pool in self._given.pools:
                if pool.problem:
                    return NoAllocation(Problem.INVALID_POOL, pool.problem)
        return self._problem

    # --- preparation -----------------------------------------------------------------

    def _prepare(self) -> NoAllocation | None:
        """Look up classes, and the devices of mode All."""
        total = 0
        for claim in self._claims:
            least, requests = 0, []
            for request in claim.requests:
                alternatives = self._alternatives(request)
                if isinstance(alternatives, NoAllocation):
                    return alternatives
                requests.append(alternatives)
                least += min((one.count for one in alternatives), default=0)
                if least > RESULTS_MAX:
                    text = f"a claim asks for {least} devices and may have {RESULTS_MAX}"
                    return NoAllocation(Problem.REQUEST, text)
            self._requests.append(requests)
            self._selected.append([some[0] for some in requests if some])
            total += max(least, len(requests))
        return NoAllocation(Problem.LIMIT) if total > POD_CLAIM_DEVICES_MAX else None

    def _alternatives(self, request: DeviceRequest) -> list[Alternative] | NoAllocation:
        found = []
        for exact in request.alternatives:
            asked = self._given.alternative(request, exact)
            if asked is None:
                text = f"request {request.name_of(exact)}: device class {exact.class_name}"
                return NoAllocation(Problem.REQUEST, f"{text} does not exist")
            problem = self._find_all(asked) if asked.is_all else None
            if problem is not None:
                return problem
            found.append(asked)
        return found

    def _find_all(self, asked: Alternative) -> NoAllocation | None:
        """The devices of mode All: those in use too, since it is all or nothing."""
        for pool in self._given.pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else f"invalid ({pool.problem})"
                text = f"request {asked.name} asks for all devices and a pool is {state}"
                return NoAllocation(Problem.REQUEST, text)
        if not self._work.spend(len(self._candidates) // DEVICES_PER_STEP):
            return NoAllocation(Problem.LIMIT)
        for candidate in self._candidates:
            selects = asked.selects(candidate)
            if isinstance(selects, SelectorFailure):
                return NoAllocation(Problem.SELECTOR, selects.text)
            if selects:
                fits = self._taken.could_have(asked, candidate.device)
                if isinstance(fits, NoAllocation):
                    return fits
                if fits:
                    asked.devices.append(candidate)
        asked.count = len(asked.devices)
        return None

    # --- search ----------------------------------------------------------------------

    def _request(self, claim: int, number: int) -> _Result:
        """Allocate a request of a claim, and all requests that follow it."""
        if claim == len(self._claims):
            return _Result.FOUND
        if number == len(self._requests[claim]):
            ended = self._request(claim + 1, 0)
            # With other devices in this claim, the next one may choose a smaller subrequest.
            return _Result.NONE if ended is _Result.TOO_MANY else ended
        result = _Result.TOO_MANY
        for asked in self._requests[claim][number]:
            self._selected[claim][number] = asked
            ended = self._start(_Place(claim, number), asked)
            if ended in (_Result.FOUND, _Result.STOP):
                return ended
            if ended is _Result.NONE:
                result = ended
        return result

    def _start(self, place: _Place, asked: Alternative) -> _Result:
        """Allocate the devices of a request from the first one on."""
        if asked.is_all:
            return self._device(place, asked, asked.devices, 0) if asked.count else _Result.NONE
        candidates = self._candidates
        if self._order is not first_fit:
            self._work.spend(len(candidates))
            candidates = list(self._order(asked, candidates, self._taken.every()))
        return self._device(place, asked, candidates, 0)

    def _device(
        self,
        place: _Place,
        asked: Alternative,
        candidates: Sequence[Candidate],
        start: int,
        number: int = 0,
    ) -> _Result:
        """Allocate device ``number`` of a request: one of the candidates from ``start`` on."""
        if number >= asked.count:
            return self._request(place.claim, place.number + 1)
        if asked.count - number > RESULTS_MAX - len(self._taken.of_claim(place.claim)):
            return _Result.TOO_MANY
        for at in range(start, len(candidates)):
            if not self._work.spend(1) or self._taken.count == POD_CLAIM_DEVICES_MAX:
                return self._stop(NoAllocation(Problem.LIMIT))
            ended = self._with(place, asked, candidates, at, number)
            if ended is not _Result.NONE or asked.is_all:
                return ended  # of mode All no other device can replace this one
        return _Result.NONE

    def _with(
        self,
        place: _Place,
        asked: Alternative,
        candidates: Sequence[Candidate],
        at: int,
        number: int,
    ) -> _Result:
        """Allocate one candidate, and all that follows."""
        chosen = self._taken.take(place.claim, asked, candidates[at])
        if chosen is None:
            return _Result.NONE
        if isinstance(chosen, NoAllocation):
            return self._stop(chosen)
        ended = self._device(place, asked, candidates, at + 1, number + 1)
        if ended is not _Result.FOUND:
            self._taken.give_back(place.claim, chosen)
        return ended

    def _stop(self, problem: NoAllocation) -> _Result:
        self._problem = problem
        return _Result.STOP
