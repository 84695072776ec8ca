"""Reservations never exceed the capacity, for any order of admissions, pods and Bindings."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Assumption
from tests.builders import ALLOW_ALL_MAPS, as_bound, node, pod
from tests.unit.decide.admission.admission_world import World

TIERS = ("2g.20gb", "1g.10gb")


class Admissions(RuleBasedStateMachine):
    """Pods of one priority ask, appear, are bound by us or by others, end, or never appear."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.now = 1000.0
        self.asked = 0
        self.capacity: dict[str, int] = {}
        self.promised: dict[str, tuple[str, float]] = {}
        self.pending: dict[str, Pod] = {}
        self.assumed: dict[str, Placement] = {}
        self.bound: dict[str, Pod] = {}

    @initialize(counts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=3))
    def nodes(self, counts: list[tuple[int, int]]) -> None:
        for number, (large, small) in enumerate(counts):
            offered = {"2g.20gb": large, "1g.10gb": small}
            self.world.cluster.upsert_node(node(f"n{number}", mig=offered))
        sums = [sum(column) for column in zip(*counts, strict=True)] or [0, 0]
        self.capacity = dict(zip(TIERS, sums, strict=True))

    @rule()
    def ask(self) -> None:
        """A pod is admitted, each of a workload of its own."""
        self.asked += 1
        asked = pod("web-", uid="", mig={"2g.20gb": 1}, owner=f"Deployment/d{self.asked}")
        tier = self.world.admit(asked, now=self.now)
        if tier in TIERS:
            self.promised[self.world.last_id] = (tier, self.now)

    @rule(data=st.data())
    @precondition(lambda self: self.promised)
    def appear(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(sorted(self.promised)))
        tier, _ = self.promised.pop(tag)
        shown = pod(tag, mig={tier: 1}, annotations={well_known.RESERVATION: tag})
        self.world.cluster.upsert_pod(shown)
        self.world.reservations.upsert_pod(shown)
        self.pending[shown.uid] = shown

    @rule(data=st.data(), assume=st.booleans())
    @precondition(lambda self: self.pending)
    def place(self, data: st.DataObject, assume: bool) -> None:
        """Bound by us, confirmed at once or later; the reservation guarantees nothing here."""
        shown = self.pending[data.draw(st.sampled_from(sorted(self.pending)))]
        decision = schedule_one(self.world.cluster, shown, ALLOW_ALL_MAPS)
        if not isinstance(decision, Placement):
            return
        del self.pending[shown.uid]
        given_to = Assumption(decision.node_name, decision.devices, decision.index)
        self.world.cluster.assume(shown, given_to)
        self.assumed[shown.uid] = decision
        if not assume:
            self.confirm(shown.uid)

    @rule(data=st.data(), fails=st.booleans())
    @precondition(lambda self: self.assumed)
    def end_binding(self, data: st.DataObject, fails: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.assumed)))
        if fails:
            self.world.cluster.forget(uid)
            self.pending[uid] = self.assumed.pop(uid).pod
        else:
            self.confirm(uid)

    def confirm(self, uid: str) -> None:
        shown = as_bound(self.assumed.pop(uid))
        self.world.cluster.upsert_pod(shown)
        self.world.reservations.upsert_pod(shown)
        self.bound[uid] = shown

    @rule(data=st.data())
    @precondition(lambda self: self.pending or self.bound)
    def end(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted({**self.pending, **self.bound})))
        self.pending.pop(uid, None)
        self.bound.pop(uid, None)
        self.world.cluster.delete_pod(uid)
        self.world.reservations.end(uid)

    @rule(seconds=st.sampled_from([0.5, 5.0, 10.0]))
    def wait(self, seconds: float) -> None:
        """A reservation whose pod does not appear in time is released."""
        self.now += seconds
        self.world.reservations.expire(self.now)
        self.promised = {
            tag: (tier, at) for tag, (tier, at) in self.promised.items() if self.now - at < 10
        }

    @invariant()
    def no_tier_is_given_more_often_than_it_is_there(self) -> None:
        living = [tier for tier, _ in self.promised.values()]
        placed = (placement.pod for placement in self.assumed.values())
        for one in (*self.pending.values(), *self.bound.values(), *placed):
            living += [well_known.mig_profile(resource) for resource in one.gpu_requests]
        for tier in TIERS:
            assert living.count(tier) <= self.capacity.get(tier, 0), tier

    @invariant()
    def every_promise_is_accounted_for(self) -> None:
        living = len(self.promised) + len(self.pending) + len(self.assumed)
        assert len(self.world.reservations) == living


TestPromises = Admissions.TestCase
TestPromises.settings = settings(stateful_step_count=30, max_examples=settings().max_examples // 2)
