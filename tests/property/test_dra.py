"""Random histories of claims: no device is allocated twice, nothing falls below zero, and answers
that are kept are those that a state without the history gives.

Claims are allocated by decisions, written in any order, given up before they are written, and
deallocated; events of earlier writes arrive late, and drivers publish their slices again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.device import DeviceId
from scheduler.plugins.dynamic_resources.node_claims import ClaimPlanner, NodeClaims
from scheduler.plugins.dynamic_resources.pod_claims import FoundClaims
from scheduler.state.cache.cluster import Assumption, Cluster
from tests.allocation_check import devices_of, held_twice, overdrawn_counters
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.dra import (
    CLASS,
    claiming,
    device_class,
    request_json,
    resource_claim,
)
from tests.property.published_devices import published

REQUESTS: tuple[dict[str, Any], ...] = (
    request_json(),
    request_json(count=2),
    request_json(allocationMode="All"),
    request_json(capacity={"requests": {"memory": "2"}}),
    request_json(adminAccess=True),
    {
        "name": "gpu",
        "firstAvailable": [
            {"name": "two", "deviceClassName": CLASS, "count": 2},
            {"name": "one", "deviceClassName": CLASS},
        ],
    },
)
STEPS = ("place", "place", "place", "write", "late", "give-up", "deallocate", "publish")
KINDS = st.tuples(*[st.sampled_from(("whole", "shares", "parts"))] * 2)


def steps_of(names: tuple[str, ...]) -> st.SearchStrategy[list[tuple[str, list[Any], int]]]:
    """Steps with these names: what a claim requests, and which of several things is meant."""
    requests = st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=2)
    return st.lists(st.tuples(st.sampled_from(names), requests, st.integers(0, 7)), max_size=20)


class History:
    """A cluster of two nodes, and the claims that its API server has."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.kinds = dict(zip(("n1", "n2"), kinds, strict=True))
        self.generation = 1
        self.state = cluster(node("n1"), node("n2"), device_class())
        self.publish("n1")
        self.publish("n2")
        #: What the API server has, and what placements have not written yet.
        self.written: dict[str, ResourceClaim] = {}
        self.unwritten: dict[str, Placement] = {}
        self.count = 0

    def publish(self, node_name: str) -> None:
        self.generation += 1
        for one in published(node_name, self.kinds[node_name], self.generation):
            self.state.dra.upsert(one)

    def place(self, requests: list[Any]) -> None:
        self.count += 1
        names = [f"c{self.count}-{at}" for at in range(len(requests))]
        for name, request in zip(names, requests, strict=True):
            self.written[name] = resource_claim(name, request)
            self.state.dra.upsert(self.written[name])
        newcomer = pod(f"p{self.count}", spec=claiming(*names))
        self.state.upsert_pod(newcomer)
        found = schedule_one(self.state, newcomer, ALLOW_ALL_MAPS)
        if isinstance(found, Placement):
            assumption = Assumption(found.node_name, found.devices, claims=found.claims)
            self.state.assume(newcomer, assumption)
            self.unwritten[newcomer.uid] = found

    def write(self, uid: str, *, late: bool) -> None:
        """The allocations are written; the event of the finalizer may come after the answer."""
        found = self.unwritten.pop(uid)
        assert found.claims is not None
        for one in found.claims.claims:
            name = one.key.partition("/")[2]
            before = msgspec.structs.replace(self.written[name], version="5")
            after = msgspec.structs.replace(before, version="6", allocation=one.allocation)
            for event in (after, before) if late else (before, after):
                self.state.dra.upsert(event)
            self.written[name] = after

    def deallocate(self, name: str) -> None:
        self.state.dra.delete(ResourceClaim, self.written.pop(name).key)

    def step(self, step: str, requests: list[Any], at: int) -> None:
        """One step about claims; which of several claims or nodes it concerns depends on ``at``."""
        unwritten = sorted(self.unwritten)
        allocated = sorted(n for n, one in self.written.items() if one.allocation is not None)
        match step:
            case "place":
                self.place(requests)
            case "write" | "late" if unwritten:
                self.write(unwritten[at % len(unwritten)], late=step == "late")
            case "deallocate" if allocated:
                self.deallocate(allocated[at % len(allocated)])
            case "publish":
                self.publish(("n1", "n2")[at % 2])

    def allocations(self) -> list[Allocation]:
        """What is written, or about to be."""
        found = [one.allocation for one in self.written.values()]
        for placement in self.unwritten.values():
            assert placement.claims is not None
            found += [one.allocation for one in placement.claims.claims]
        return [one for one in found if one is not None]


def check(history: History) -> None:
    store = history.state.dra
    devices = devices_of(store)
    results = [
        one for found in history.allocations() for one in found.results if not one.admin_access
    ]
    whole = Counter(one.id for one in results if not one.is_shared)
    assert held_twice(history.allocations()) == set()
    assert store.in_use.dedicated == whole
    consumed: Counter[tuple[DeviceId, str]] = Counter()
    for one in results:
        for name, amount in one.consumed.items():
            consumed[one.id, name] += amount
    for (device, name), amount in consumed.items():
        assert amount <= devices[device].capacities[name].value
        assert store.in_use.consumed(device)[name] == amount
    assert list(overdrawn_counters(store, {one.id for one in results})) == []
    for pool in store.pools.on_node("n1", {}) + store.pools.on_node("n2", {}):
        assert all(left >= 0 for left in store.in_use.free_counters(pool).values())


def answers(state: Cluster) -> list[NodeClaims]:
    """What each node would give to a pod with two claims."""
    claims = (resource_claim("x", request_json(count=2)), resource_claim("y"))
    planner = ClaimPlanner(state, FoundClaims(claims), Budget(10**6))
    found = (state.at(name) for name in ("n1", "n2"))
    return [planner.on_node(one.node) for one in found if one is not None and one.node is not None]


def fresh(history: History) -> Cluster:
    """The same state without its history."""
    plans = [one.claims for one in history.unwritten.values() if one.claims is not None]
    state = cluster(node("n1"), node("n2"), *history.state.dra.every())
    for number, one in enumerate(plans):
        state.dra.assume(str(number), one)
    return state


@given(kinds=KINDS, steps=steps_of(STEPS))
def test_no_device_is_allocated_twice_and_nothing_falls_below_zero(
    kinds: tuple[str, ...], steps: list[tuple[str, list[Any], int]]
) -> None:
    history = History(kinds)
    for step, requests, at in steps:
        history.step(step, requests, at)
        unwritten = sorted(history.unwritten)
        if step == "give-up" and unwritten:
            uid = unwritten[at % len(unwritten)]
            history.unwritten.pop(uid)
            history.state.forget(uid)
        check(history)
        assert answers(history.state) == answers(fresh(history))
    assert len(history.state.dra.in_use.dedicated) <= 10
