"""What the real structured allocator allocates: ``tools/golden/dynamicresources`` made the worlds.

Selectors are evaluated by our own engine, which has golden vectors of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from scheduler.framework.budget import Budget
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.node import Node
from scheduler.plugins.dynamic_resources.allocation.allocator import allocate
from scheduler.plugins.dynamic_resources.allocation.selectors import matches
from scheduler.plugins.dynamic_resources.allocation.taken_devices import (
    AllocationInput,
    NoAllocation,
    Problem,
)
from scheduler.plugins.dynamic_resources.node_claims import best_allocation
from scheduler.state.dra.store import DraStore
from scheduler.watch.decode.dra.claims import CLAIMS
from scheduler.watch.decode.dra.classes import CLASSES
from scheduler.watch.decode.dra.slices import SLICES
from scheduler.watch.decode.object_decoder import ObjectDecoder
from tests.allocation_check import problems

GOLDEN: Final = Path(__file__).parents[3] / "golden" / "dynamicresources.json"
WORLDS: Final[list[Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
#: Steps of one search here; some searches of the real allocator take millions.
STEPS_MAX: Final = 20_000
#: How many searches may end without a result for this.
UNFINISHED_MAX: Final = 4

Found = tuple[Allocation, ...] | NoAllocation


def _decoded(decoder: ObjectDecoder[Any], body: Any) -> Any:
    event: Any = decoder.event(msgspec.json.encode(body), False)
    assert not event.item.unread, event.item.unread
    return event.item


def _node(body: Any) -> Node:
    features = body["status"].get("declaredFeatures", ())
    meta = body["metadata"]
    return Node(name=meta["name"], labels=meta["labels"], declared_features=frozenset(features))


class Step:
    """One step of a world: the claims, what the real allocator says, and how to ask ours."""

    def __init__(self, store: DraStore, node: Node, body: Any) -> None:
        self.store = store
        self.node = node
        self.error: str = body.get("error", "")
        self.claims: list[ResourceClaim] = [_decoded(CLAIMS, one) for one in body["claims"]]
        self.expected: list[ResourceClaim] = [
            _decoded(CLAIMS, {**claim, "status": {"allocation": result}})
            for claim, result in zip(body["claims"], body["result"] or (), strict=False)
        ]

    def first_fit(self) -> Found:
        """What our allocator finds in kube-scheduler's order."""
        return allocate(self._given, self.claims, Budget(STEPS_MAX))

    def best_fit(self) -> Found:
        """What a pod gets."""
        return best_allocation(self._given, self.claims)[0]

    @property
    def _given(self) -> AllocationInput:
        pools = self.store.pools.on_node(self.node.name, self.node.labels)
        return AllocationInput(self.node, pools, self.store, matches)


def _steps(world: Any) -> Any:
    """The steps of a world; what the real allocator allocated is in use for the next one."""
    store = DraStore()
    for decoder, kind in ((SLICES, "slices"), (CLASSES, "classes")):
        for body in world[kind]:
            store.upsert(_decoded(decoder, body))
    nodes = {one["metadata"]["name"]: _node(one) for one in world["nodes"]}
    for body in world["steps"]:
        for name in body.get("released", ()):
            store.delete(ResourceClaim, f"team/{name}")
        step = Step(store, nodes[body["node"]], body)
        yield step
        for claim in step.expected:
            store.upsert(claim)


def _plain(allocation: Allocation | None) -> Any:
    """An allocation without the ids of shares, which are random."""
    assert allocation is not None
    results = [msgspec.structs.replace(one, share_id="") for one in allocation.results]
    return msgspec.to_builtins(msgspec.structs.replace(allocation, results=tuple(results)))


@pytest.mark.parametrize("world", range(len(WORLDS)))
def test_first_fit_allocates_what_kube_scheduler_allocates(world: int) -> None:
    for step in _steps(WORLDS[world]):
        found = step.first_fit()
        if not isinstance(found, NoAllocation):
            assert [_plain(one) for one in found] == [_plain(c.allocation) for c in step.expected]
            continue
        assert not step.expected
        if found.problem is not Problem.LIMIT:
            is_invalid = found.problem is Problem.INVALID_POOL
            assert is_invalid is (step.error == "invalid pool"), found
            is_error = found.problem in (Problem.SELECTOR, Problem.REQUEST)
            assert is_error is (step.error not in ("", "invalid pool")), (found, step.error)


@pytest.mark.parametrize("world", range(len(WORLDS)))
def test_best_fit_allocates_where_kube_scheduler_does_and_validly(world: int) -> None:
    for step in _steps(WORLDS[world]):
        found = step.best_fit()
        if isinstance(found, NoAllocation):
            assert not step.expected, found
            continue
        assert problems(step.store, step.node, step.claims, found) == []
        # Where only kube-scheduler finds nothing, it met an error that best fit does not meet.
        assert step.expected or step.error


def test_the_check_accepts_what_kube_scheduler_allocates() -> None:
    for world in WORLDS:
        for step in _steps(world):
            found = [one.allocation for one in step.expected if one.allocation is not None]
            if found:
                assert problems(step.store, step.node, step.claims, found) == []


@cache
def _ends() -> Counter[str]:
    found: Counter[str] = Counter()
    for world in WORLDS:
        for step in _steps(world):
            ended = step.first_fit()
            found[ended.problem.name if isinstance(ended, NoAllocation) else "FOUND"] += 1
    return found


def test_the_worlds_show_every_end_of_a_search() -> None:
    ends = _ends()

    assert ends["FOUND"] > 200
    assert all(ends[one.name] > 5 for one in Problem if one is not Problem.LIMIT)
    assert ends["LIMIT"] <= UNFINISHED_MAX
