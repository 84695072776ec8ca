"""Writes, failures, deletions and Bindings of pods with claims, in every order.

The API server is a dictionary that carries out what the writer asks of a real one
(``tests/http/bind/test_claim_writer.py``); the watch shows the writes late, in their order. Another
scheduler allocates devices of the same pools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.controllers.claim_allocation import ClaimController
from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import PendingPlacement, Rejection
from scheduler.model.actions import CompleteStep, ReleaseClaims, ReserveClaim, ReserveClaims
from scheduler.model.dra.claim import ClaimConsumer, ResourceClaim
from scheduler.model.pods.pod import Pod
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from scheduler.state.fold import fold
from scheduler.watch.inbox import Inbox
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.dra import (
    allocation_json,
    claiming,
    device_class,
    resource_claim,
    resource_slice,
    result_json,
)
from tests.unit.loop.loop_world import Leader

CLAIMS = ("own-0", "own-1", "own-2", "shared")
#: Claims of another scheduler, which reads no other claim.
FOREIGN = ("team/foreign-0", "team/foreign-1")
USES = {"a": ("own-0", "shared"), "b": ("own-1", "shared"), "c": ("own-2",), "d": ("shared",)}
#: More of what leads on: most histories would end before a Binding.
STEPS = (
    *("decide", "answer", "watch", "bound") * 4,
    *("fail", "refused", "delete", "tick", "foreign", "foreign"),
)


class World:
    """Two nodes with two devices each, four pods, and the API server's claims."""

    def __init__(self) -> None:
        slices = (resource_slice(name, "gpu-0", "gpu-1") for name in ("n1", "n2"))
        claims = [resource_claim(name) for name in CLAIMS]
        claims += [resource_claim(key.removeprefix("team/")) for key in FOREIGN]
        self.cluster = cluster(node("n1"), node("n2"), *slices, device_class(), *claims)
        self.api = {one.key: one for one in claims}
        #: What the watch did not show yet.
        self.unseen: list[ResourceClaim] = []
        #: The version with which each claim was allocated.
        self.allocated_at: dict[str, int] = {}
        self.waiting = {name: pod(name, spec=claiming(*uses)) for name, uses in USES.items()}
        self.bound: dict[str, Pod] = {}
        self.binding: dict[str, str] = {}
        self.sent: list[ReserveClaims | ReleaseClaims] = []
        self.now, self.version = 100.0, 1
        metrics = Metrics("gpu-scheduler")
        avoidance = NodeAvoidance(self.cluster, metrics, LeaderGate(Leader(), [], Inbox()))
        self.controller = ClaimController(
            self.cluster, metrics, avoidance, lambda: self.now, lambda: "share"
        )
        for one in self.waiting.values():
            self.cluster.upsert_pod(one)

    def step(self, what: str, number: int) -> None:
        names = sorted(self.waiting)
        name = names[number % len(names)] if names else ""
        match what:
            case "decide" if name:
                self.decide(self.waiting[name])
            case "answer" | "fail" if self.sent:
                self.carry_out(number, fails=what == "fail")
            case "watch":
                for _ in range(min(number, len(self.unseen))):
                    self.see(ev.DraUpdated(self.unseen.pop(0)))
            case "foreign":
                self.change_foreign(number)
            case "bound" | "refused" if self.binding:
                self.end_binding(number, is_bound=what == "bound")
            case "delete" if name:
                self.binding.pop(name, None)
                self.see(ev.PodDeleted(self.waiting.pop(name).uid))
            case "tick":
                self.now += 1
                self.run(self.controller.tick(self.now, leads=True))

    def see(self, event: ev.Event) -> None:
        fold(self.cluster, event)
        self.run(self.controller.handle(event, self.now))

    def run(self, effects: Iterable[Any]) -> None:
        for one in effects:
            if isinstance(one, ReserveClaims | ReleaseClaims):
                self.sent.append(one)
            elif isinstance(one, CompleteStep):
                assumed = self.cluster.assumed[one.uid]
                self.binding[one.uid.removeprefix("team-")] = assumed.node_name

    def decide(self, newcomer: Pod) -> None:
        if newcomer.uid in self.cluster.assumed:
            return
        decision = schedule_one(self.cluster, newcomer, ALLOW_ALL_MAPS)
        if isinstance(decision, Rejection):
            if decision.deallocates is not None:
                self.run(self.controller.deallocate(decision))
            return
        assert isinstance(decision, PendingPlacement)
        assumption = Assumption(decision.node_name, decision.devices, claims=decision.claims)
        self.cluster.assume(newcomer, assumption)
        self.run(self.controller.begin(decision, self.now))

    def end_binding(self, number: int, *, is_bound: bool) -> None:
        name = sorted(self.binding)[number % len(self.binding)]
        node_name, one = self.binding.pop(name), self.waiting[name]
        outcome = ev.BindOutcome.BOUND if is_bound else ev.BindOutcome.REFUSED
        self.see(ev.BindEnded(one.uid, outcome, ""))
        if is_bound:
            self.check_rivals(name)
            del self.waiting[name]
            self.bound[name] = msgspec.structs.replace(one, node_name=node_name)
            self.see(ev.PodUpdated(self.bound[name]))

    # --- the API server ----------------------------------------------------------------------

    def carry_out(self, number: int, *, fails: bool) -> None:
        """The first request of one pod."""
        uids = list(dict.fromkeys(one.uid for one in self.sent))
        uid = uids[number % len(uids)]
        action = next(one for one in self.sent if one.uid == uid)
        self.sent.remove(action)
        if isinstance(action, ReleaseClaims):
            released = tuple(self.released(one.key, action) for one in action.claims)
            self.see(ev.ClaimsReleased(uid, released))
            return
        written: tuple[ResourceClaim, ...] = ()
        for position, one in enumerate(action.claims):
            problem = "refused" if fails and position == number % len(action.claims) else ""
            problem = problem or self.problem(one)
            if problem:
                self.see(ev.ClaimsReserved(uid, action.attempt, written, problem))
                return
            written += (self.reserved(one, action),)
        self.see(ev.ClaimsReserved(uid, action.attempt, written))

    def problem(self, one: ReserveClaim) -> str:
        seen = self.api[one.key].allocation
        if one.is_allocated:
            return "" if seen is not None and seen.results == one.allocation.results else "changed"
        return "" if seen is None else "allocated"

    def reserved(self, one: ReserveClaim, action: ReserveClaims) -> ResourceClaim:
        claim = self.api[one.key]
        users = {user.uid: user for user in claim.reserved_for}
        users[action.uid] = ClaimConsumer(action.uid, action.pod_name)
        return self.put(claim, allocation=one.allocation, reserved_for=tuple(users.values()))

    def released(self, key: str, action: ReleaseClaims) -> ResourceClaim:
        claim = self.api[key]
        left = tuple(user for user in claim.reserved_for if user.uid != action.uid)
        allocation = None if action.deallocate and not left else claim.allocation
        return self.put(claim, allocation=allocation, reserved_for=left)

    def put(self, claim: ResourceClaim, **changes: Any) -> ResourceClaim:
        self.version += 1
        changed = msgspec.structs.replace(claim, version=str(self.version), **changes)
        self.api[claim.key] = changed
        self.unseen.append(changed)
        if changed.allocation is None:
            self.allocated_at.pop(claim.key, None)
        elif claim.allocation is None:
            self.allocated_at[claim.key] = self.version
        return changed

    def change_foreign(self, number: int) -> None:
        """Another scheduler allocates a claim, or gives it up."""
        claim = self.api[FOREIGN[number % 2]]
        node_name, device = ("n1", "n2")[number // 2 % 2], f"gpu-{number // 4 % 2}"
        given = allocation_json(result_json(device, node_name), node=node_name)
        allocation = resource_claim(allocation=given).allocation
        self.put(claim, allocation=None if claim.allocation is not None else allocation)

    # --- what must hold ----------------------------------------------------------------------

    def check(self) -> None:
        given = Counter(
            result.id
            for claim in self.api.values()
            if claim.allocation is not None and claim.key not in FOREIGN
            for result in claim.allocation.results
        )
        assert max(given.values(), default=0) <= 1, "a device is allocated twice"
        for name, one in self.bound.items():
            for claim in USES[name]:
                seen = self.api[f"team/{claim}"]
                assert seen.allocation is not None
                assert seen.is_reserved_for(one.uid), f"{name} runs without {claim}"
                terms = seen.allocation
                assert terms.admits(one.node_name, {}), f"{claim} is on another node than {name}"

    def check_rivals(self, name: str) -> None:
        """A pod is bound: no claim of another scheduler had its devices first."""
        for key in (f"team/{claim}" for claim in USES[name]):
            mine = self.api[key].allocation
            assert mine is not None
            for other in FOREIGN:
                theirs = self.api[other].allocation
                if theirs is not None and self.allocated_at[other] < self.allocated_at[key]:
                    both = {one.id for one in mine.results} & {one.id for one in theirs.results}
                    assert not both, f"{other} had a device of {name} first"

    def settle(self) -> None:
        """Everything is answered, and nothing new begins."""
        while self.sent or self.binding or self.unseen:
            if self.sent:
                self.carry_out(0, fails=False)
            elif self.unseen:
                self.step("watch", 1)
            else:
                self.end_binding(0, is_bound=False)
            self.check()
        self.step("tick", 0)
        while self.sent:
            self.carry_out(0, fails=False)


@settings(max_examples=settings().max_examples * 2)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 11)), min_size=30, max_size=60))
def test_no_device_is_given_twice_and_no_reservation_is_lost(
    steps: list[tuple[str, int]],
) -> None:
    world = World()
    for what, number in steps:
        world.step(what, number)
        world.check()

    world.settle()
    world.settle()

    bound = {one.uid for one in world.bound.values()}
    reserved = {user.uid for claim in world.api.values() for user in claim.reserved_for}
    assert reserved == bound, "only bound pods keep their claims"
    assert world.cluster.assumed == {}
    for claim in world.api.values():
        world.see(ev.DraUpdated(claim))
    devices = {
        result.id
        for claim in world.api.values()
        if claim.allocation is not None
        for result in claim.allocation.results
    }
    assert set(world.cluster.dra.in_use.dedicated) == devices
