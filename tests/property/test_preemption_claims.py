"""Victims for devices behind claims always suffice, and none of them could stay."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Preemption
from scheduler.model.dra.claim import ClaimConsumer, ResourceClaim
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import ALLOW_ALL_MAPS, as_bound, cluster, node, pod
from tests.dra import CLASS, claiming, device_class, request_json, resource_claim
from tests.property.published_devices import published
from tests.unit.plugins.preemption.claim_scene import deallocate, nominated
from tests.unit.plugins.preemption.scene import ALL, OWN

EXTENDED = "example.com/gpu"
NODES = ("n1", "n2")
#: What a pod asks for: requests of a claim, or a number of devices as an extended resource.
ASKS: tuple[Any, ...] = (
    request_json(),
    request_json(count=2),
    request_json(capacity={"requests": {"memory": "2"}}),
    {
        "name": "gpu",
        "firstAvailable": [
            {"name": "two", "deviceClassName": CLASS, "count": 2},
            {"name": "one", "deviceClassName": CLASS},
        ],
    },
    1,
    2,
)
asks = st.sampled_from(ASKS)
priorities = st.integers(0, 3)
#: An ask, a priority, the priority of a second user of the claim, and whether the pod is ours.
placed = st.lists(
    st.tuples(asks, priorities, st.none() | priorities, st.sampled_from([True, True, False])),
    max_size=8,
)
kinds = st.tuples(*[st.sampled_from(("whole", "shares", "parts"))] * 2)
World = tuple[tuple[str, str], list[Any]]
worlds = st.tuples(kinds, placed)


def asking(name: str, ask: Any, **fields: Any) -> tuple[Pod, list[ResourceClaim]]:
    """A pod, and the claim that it names."""
    if isinstance(ask, int):
        return pod(name, requests={EXTENDED: ask}, **fields), []
    return pod(name, spec=claiming(name), **fields), [resource_claim(name, ask)]


def world(of: World) -> Cluster:
    """As many of the pods as find room, bound with their claims."""
    state = cluster(*map(node, NODES), device_class(CLASS, extendedResourceName=EXTENDED))
    for name, kind in zip(NODES, of[0], strict=True):
        for part in published(name, kind):
            fold(state, ev.DraUpdated(part))
    for number, (ask, priority, second, is_ours) in enumerate(of[1]):
        name = f"v{number}"
        scheduler = "gpu-scheduler" if is_ours else "other"
        one, claims = asking(name, ask, priority=priority)
        for claim in claims:
            fold(state, ev.DraUpdated(claim))
        decision = schedule_one(state, one, ALLOW_ALL_MAPS)
        if not isinstance(decision, Placement):
            continue
        bound = msgspec.structs.replace(as_bound(decision), scheduler_name=scheduler)
        users = [bound]
        if second is not None and claims:
            twin = pod(f"{name}-b", node=bound.node_name, priority=second, spec=claiming(name))
            users.append(msgspec.structs.replace(twin, scheduler_name=scheduler))
        assert decision.claims is not None
        write(state, decision.claims, users)
        for user in users:
            state.upsert_pod(user)
    return state


def write(state: Cluster, plan: ClaimPlan, users: list[Pod]) -> None:
    """The claims are allocated, and reserved for their users."""
    reserved = tuple(ClaimConsumer(one.uid, one.name) for one in users)
    if plan.extended is not None:
        name = f"{users[0].name}-ext"
        made = resource_claim(name, owner=users[0].uid, extended=True)
        written = {"allocation": plan.extended.allocation, "reserved_for": reserved}
        fold(state, ev.DraUpdated(msgspec.structs.replace(made, **written)))
    for one in plan.claims:
        claim = state.dra.claim(one.key)
        assert claim is not None
        written = {"allocation": one.allocation, "reserved_for": reserved}
        fold(state, ev.DraUpdated(msgspec.structs.replace(claim, **written)))


def without(of: World, newcomer: Pod, claims: list[ResourceClaim], gone: list[Pod]) -> Cluster:
    """The same world after the end of some pods and of their claims."""
    state = world(of)
    for claim in claims:
        fold(state, ev.DraUpdated(claim))
    for one in gone:
        fold(state, ev.PodDeleted(one.uid))
    deallocate(state)
    return state


@given(worlds, asks, st.integers(1, 4), st.sampled_from([OWN, ALL]))
def test_victims_suffice_and_none_could_stay(
    of: World, ask: Any, priority: int, pipeline: Any
) -> None:
    newcomer, claims = asking("boss", ask, priority=priority)
    found = schedule_one(without(of, newcomer, claims, []), newcomer, pipeline)
    if not isinstance(found, Preemption):
        return
    victims = list(found.victims)
    assert victims
    assert all(one.priority < priority for one in victims)
    assert {one.node_name for one in victims} == {found.nominated_node}
    if pipeline is OWN:
        assert {one.scheduler_name for one in victims} == {"gpu-scheduler"}

    after = schedule_one(without(of, newcomer, claims, victims), newcomer, ALLOW_ALL_MAPS)
    assert isinstance(after, Placement)
    assert after.node_name == found.nominated_node
    assert after.claims == found.claims, "what is held for it is what it gets"
    for victim in victims:
        others = [one for one in victims if one is not victim]
        left = schedule_one(without(of, newcomer, claims, others), newcomer, ALLOW_ALL_MAPS)
        assert not isinstance(left, Placement), f"{victim.name} need not go"


@given(worlds, asks, asks, st.integers(1, 4))
def test_no_weaker_pod_takes_what_a_preemptor_waits_for(
    of: World, ask: Any, other: Any, priority: int
) -> None:
    newcomer, claims = asking("boss", ask, priority=priority)
    state = without(of, newcomer, claims, [])
    found = schedule_one(state, newcomer, OWN)
    if not isinstance(found, Preemption):
        return
    boss = nominated(state, found)
    for victim in found.victims:
        fold(state, ev.PodDeleted(victim.uid))
    waiting = schedule_one(state, boss, OWN)
    assert not isinstance(waiting, Preemption), "its room is about to be free"
    deallocate(state)

    rival, more = asking("rival", other, priority=priority)
    for claim in more:
        fold(state, ev.DraUpdated(claim))
    decision = schedule_one(state, rival, ALLOW_ALL_MAPS)
    if isinstance(decision, Placement):
        assert decision.claims is not None
        write(state, decision.claims, [rival])
        state.upsert_pod(as_bound(decision))

    after = schedule_one(state, boss, OWN)
    assert isinstance(after, Placement)
    assert after.node_name == found.nominated_node
