"""What the claims of a pod get from us on each feasible node, checked without our allocator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.framework.budget import Budget
from scheduler.framework.plugin import Refuse
from scheduler.framework.view import View
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_resources.allocation.allocator import allocate
from scheduler.plugins.dynamic_resources.allocation.selectors import matches
from scheduler.plugins.dynamic_resources.allocation.taken_devices import (
    AllocationInput,
    NoAllocation,
    Problem,
)
from scheduler.plugins.dynamic_resources.extended_claim import extended_resources
from scheduler.plugins.dynamic_resources.node_claims import NODE_STEPS_MAX, ClaimPlanner
from scheduler.plugins.dynamic_resources.pod_claims import claims_of
from scheduler.state.dra.store import DraStore
from tests.allocation_check import problems
from tests.differential.dra.objects import name_in_sequence

_UNLIMITED: Final = 10**9
#: What ends kube-scheduler's attempt with an error.
_ERRORS: Final = (Problem.SELECTOR, Problem.REQUEST)


class NewAllocation(msgspec.Struct, frozen=True):
    """The claims of a pod that are to be allocated on a node, and what each of them gets.

    ``names`` are those of the claims in the sequence.
    """

    node: Node
    claims: tuple[ResourceClaim, ...]
    allocations: tuple[Allocation, ...]
    names: tuple[str, ...] = ()

    @property
    def requests(self) -> dict[str, tuple[str, ...]]:
        """The requests of the devices (``requests_of``), by claim."""
        given = (_requests(one.request for one in to.results) for to in self.allocations)
        return dict(zip(self.names, given, strict=True))


class OurAllocations(msgspec.Struct, frozen=True):
    """What a pod would get, by node; ``problems`` says which allocations are not valid.

    ``failing`` names the nodes where a search in kube-scheduler's order ends with an error.
    ``served`` has the extended resources that DRA serves for the pod, by node, and ``invalid`` the
    nodes with a pool that contradicts itself.
    """

    new: Mapping[str, NewAllocation] = {}
    problems: tuple[str, ...] = ()
    failing: frozenset[str] = frozenset()
    served: Mapping[str, frozenset[str]] = {}
    invalid: frozenset[str] = frozenset()


NO_CLAIMS: Final = OurAllocations()


def our_allocations(
    view: View, pod: Pod, nodes: Iterable[Node], feasible: frozenset[str]
) -> OurAllocations:
    """The allocations of a pod on its feasible nodes; the state has those before them."""
    found = claims_of(view, pod)
    extended = extended_resources(view, pod)
    if isinstance(found, Refuse) or not (found.waiting or extended):
        return NO_CLAIMS
    planner = ClaimPlanner(view, found, Budget(_UNLIMITED), extended)
    served: dict[str, frozenset[str]] = {}
    new: dict[str, NewAllocation] = {}
    failing: set[str] = set()
    invalid: set[str] = set()
    for node in nodes:
        if any(one.problem for one in view.dra.pools.on_node(node.name, node.labels)):
            invalid.add(node.name)
        planned = extended.on_node(node) if extended is not None else None
        if planned is not None:
            served[node.name] = planned.resources
        claims = (*found.waiting, *((planned.claim,) if planned is not None else ()))
        if claims and _ends_with_an_error(view.dra, node, claims):
            failing.add(node.name)
        if claims and node.name in feasible:
            names = tuple(name_in_sequence(one, pod) for one in claims)
            given = planner.on_node(node).allocations
            new[node.name] = NewAllocation(node, claims, given, names)
    wrong = [
        f"{name}: {problem}"
        for name, one in new.items()
        for problem in problems(view.dra, one.node, one.claims, one.allocations)
    ]
    return OurAllocations(new, tuple(wrong), frozenset(failing), served, frozenset(invalid))


def _ends_with_an_error(store: DraStore, node: Node, claims: Sequence[ResourceClaim]) -> bool:
    pools = store.pools.on_node(node.name, node.labels)
    given = AllocationInput(node, pools, store, matches)
    found = allocate(given, claims, Budget(NODE_STEPS_MAX))
    return isinstance(found, NoAllocation) and found.problem in _ERRORS


def requests_of(allocation: Mapping[str, Any]) -> tuple[str, ...]:
    """The name of a request for each device of an allocation as the API has it.

    One with alternatives is named once: with other devices for the requests before it, another
    alternative may be the first that fits.
    """
    return _requests(one["request"] for one in allocation["devices"].get("results", ()))


def _requests(names: Iterable[str]) -> tuple[str, ...]:
    every = list(names)
    with_alternatives = {one.partition("/")[0] + "/" for one in every if "/" in one}
    return tuple(sorted([*with_alternatives, *(one for one in every if "/" not in one)]))
