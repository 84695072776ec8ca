"""Random histories of claims and of pods with extended resources, on the devices of two nodes.

The books of a node must never have fewer free devices than a search finds: the node would be
rejected although the pod fits.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement
from scheduler.plugins.dynamic_resources.allocation.allocator import allocate
from scheduler.plugins.dynamic_resources.allocation.selectors import matches
from scheduler.plugins.dynamic_resources.allocation.taken_devices import (
    AllocationInput,
    NoAllocation,
)
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from scheduler.state.fold import fold
from scheduler.state.node_info import NodeInfo
from tests.builders import ALLOW_ALL_MAPS, GPU, pod
from tests.dra import CLASS, device_class, request_json, resource_claim, taint_rule
from tests.property.test_dra import KINDS, STEPS, History, check, steps_of

EVERY = device_class(CLASS, extendedResourceName=GPU)
MORE_STEPS = (*STEPS, "ask", "ask", "ask", "create", "end", "taint", "untaint")


class ExtendedHistory(History):
    """The same history with pods that ask for ``nvidia.com/gpu``."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        super().__init__(kinds)
        fold(self.state, ev.DraUpdated(EVERY))
        #: Uid -> the placement of a pod whose claim is not created yet.
        self.asked: dict[str, Placement] = {}
        self.created: dict[str, Any] = {}

    def ask(self, count: int) -> None:
        """A pod asks for devices without a claim."""
        self.count += 1
        newcomer = pod(f"e{self.count}", gpus=count)
        self.state.upsert_pod(newcomer)
        self.state.update_devices()
        found = schedule_one(self.state, newcomer, ALLOW_ALL_MAPS)
        if isinstance(found, Placement):
            self.state.assume(
                newcomer, Assumption(found.node_name, found.devices, claims=found.claims)
            )
            self.asked[newcomer.uid] = found

    def create(self, uid: str) -> None:
        """The claim appears, then its allocation; the pod is bound."""
        found = self.asked.pop(uid)
        assert found.claims is not None
        assert found.claims.extended is not None
        name, more = f"{uid}-claim", {"owner": uid, "extended": True}
        fold(self.state, ev.DraUpdated(resource_claim(name, version="1", **more)))
        given = found.claims.extended.allocation
        after = resource_claim(name, version="2", **more)
        after = type(after)(**{**_fields(after), "allocation": given})
        fold(self.state, ev.DraUpdated(after))
        self.created[uid] = after
        fold(self.state, ev.PodUpdated(pod(uid.removeprefix("team-"), node=found.node_name)))

    def end(self, uid: str) -> None:
        """The pod ends, and then its claim is gone."""
        fold(self.state, ev.PodDeleted(uid))
        claim = self.created.pop(uid)
        fold(self.state, ev.DraDeleted(type(claim), claim.key))

    def allocations(self) -> list[Any]:
        found = [one.claims.extended for one in self.asked.values() if one.claims is not None]
        mine = [one.allocation for one in found if one is not None]
        return [*super().allocations(), *mine, *(one.allocation for one in self.created.values())]


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def most_found(history: ExtendedHistory, node_info: NodeInfo) -> int:
    """How many devices a search finds on a node for one pod."""
    store, node = history.state.dra, node_info.node
    assert node is not None
    given = AllocationInput(node, store.pools.on_node(node.name, node.labels), store, matches)
    count = 0
    while count < 8:
        claim = resource_claim("x", request_json(count=count + 1))
        if isinstance(allocate(given, (claim,), Budget(10_000)), NoAllocation):
            break
        count += 1
    return count


def check_books(history: ExtendedHistory) -> None:
    history.state.update_devices()
    for name in ("n1", "n2"):
        node_info = history.state.at(name)
        assert node_info is not None
        assert node_info.node is not None
        assert node_info.dra == history.state.dra.devices_on(node_info.node)
        assert node_info.free(GPU) >= 0
        assert most_found(history, node_info) <= node_info.free(GPU)


def pod_step(history: ExtendedHistory, step: str, at: int) -> None:
    asked, created = sorted(history.asked), sorted(history.created)
    waiting = [*sorted(history.unwritten), *asked]
    match step:
        case "ask":
            history.ask(1 + at % 3)
        case "create" if asked:
            history.create(asked[at % len(asked)])
        case "end" if created:
            history.end(created[at % len(created)])
        case "give-up" if waiting:
            uid = waiting[at % len(waiting)]
            history.unwritten.pop(uid, None)
            history.asked.pop(uid, None)
            history.state.forget(uid)
        case "taint":
            fold(history.state, ev.DraUpdated(taint_rule(device="abc"[at % 3])))
        case "untaint":
            rule = taint_rule(device="a")
            fold(history.state, ev.DraDeleted(type(rule), rule.key))


@given(kinds=KINDS, steps=steps_of(MORE_STEPS))
def test_books_have_at_least_the_devices_that_a_search_finds(
    kinds: tuple[str, ...], steps: list[tuple[str, list[Any], int]]
) -> None:
    history = ExtendedHistory(kinds)
    for step, requests, at in steps:
        history.step(step, requests, at)
        pod_step(history, step, at)
        check(history)
        check_books(history)
