"""Volumes are given to claims as kube-scheduler gives them: compared with a plain reading of it.

The reference walks over all volumes for each claim, as ``FindMatchingVolume`` of component-helpers
does; the product asks its index. Equal volumes are taken by name in both.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model.node import Node
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import PersistentVolume
from scheduler.plugins.volumes.node_plan import VolumePlanner
from scheduler.plugins.volumes.pod_claims import PodClaims, claims_of
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.storage import HOSTNAME, ZONE, claim, storage_class, uses, volume

CLASSES = ("local", "fast")
HOSTS = ("n1", "n2", "n3")
ZONES = {"n1": "a", "n2": "a", "n3": "b"}
CLAIMS = ("data", "logs", "more")
NODES = [node(name, labels={HOSTNAME: name, ZONE: ZONES[name]}) for name in HOSTS]

sizes = st.sampled_from(["1Gi", "2Gi", "3Gi"])
modes = st.sampled_from([["ReadWriteOnce"], ["ReadWriteMany"], ["ReadWriteOnce", "ReadWriteMany"]])
labels = st.sampled_from([{}, {"tier": "a"}, {"tier": "b"}])


@st.composite
def claims(draw: st.DrawFn) -> list[Claim]:
    names = draw(st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3, unique=True))
    return [
        claim(
            name,
            storage=draw(sizes),
            class_name=draw(st.sampled_from(CLASSES)),
            modes=draw(modes),
            selected=draw(st.sampled_from([None, None, None, *HOSTS])),
            volumeMode=draw(st.sampled_from(["Filesystem", "Filesystem", "Block"])),
            **draw(st.sampled_from([{}, {}, {"selector": {"matchLabels": {"tier": "a"}}}])),
        )
        for name in names
    ]


@st.composite
def volumes(draw: st.DrawFn) -> list[PersistentVolume]:
    places: Any = st.sampled_from([{}, *({"host": h} for h in HOSTS), {"zone": "a"}, {"zone": "b"}])
    owners: Any = st.sampled_from(
        [
            *[{}] * 4,
            {"for_claim": "team/data"},
            {"for_claim": "team/logs", "claim_uid": "uid-logs"},
            {"for_claim": "team/logs", "claim_uid": "former"},
            {"phase": "Released"},
            {"deleting": True},
        ]
    )
    return [
        volume(
            f"pv-{number}",
            storage=draw(sizes),
            class_name=draw(st.sampled_from(CLASSES)),
            modes=draw(modes),
            labels=draw(labels),
            volumeMode=draw(st.sampled_from(["Filesystem", "Filesystem", "Block"])),
            **draw(places),
            **draw(owners),
        )
        for number in range(draw(st.integers(0, 6)))
    ]


def is_bound_to(one: PersistentVolume, asked: Claim) -> bool:
    ref = one.claim
    if ref is None or (ref.namespace, ref.name) != (asked.namespace, asked.name):
        return False
    return not ref.uid or ref.uid == asked.uid


def find(asked: Claim, every: list[PersistentVolume], at: Node, taken: set[str]) -> Any:
    """``FindMatchingVolume`` in the scheduler's path."""
    best: PersistentVolume | None = None
    for one in every:
        if one.name in taken or one.class_name != asked.class_name:
            continue
        if one.claim is not None and not is_bound_to(one, asked):
            continue
        if one.capacity < (asked.request or 0) or one.mode != asked.mode or one.is_deleting:
            continue
        is_usable = one.admits(at.labels)
        if is_bound_to(one, asked):
            return one if is_usable else None
        if one.phase != "Available" or not is_usable:
            continue
        if asked.selector is not None and not asked.selector.matches(one.labels):
            continue
        if not set(asked.access_modes) <= set(one.access_modes):
            continue
        if best is None or best.capacity > one.capacity:
            best = one
    return best


def reference(asked: list[Claim], every: list[PersistentVolume], at: Node) -> Any:
    """What each claim gets on a node, or None; class ``fast`` provisions on nodes of zone a."""
    if any(one.selected_node not in (None, at.name) for one in asked):
        return None
    waiting = sorted(
        (one for one in asked if one.selected_node is None), key=lambda c: c.request or 0
    )
    given: dict[str, str] = {}
    open_claims = [one for one in asked if one.selected_node is not None]
    for one in waiting:
        found = find(one, every, at, set(given.values()))
        if found is None:
            open_claims.append(one)
        else:
            given[one.key] = found.name
    if any(one.class_name != "fast" or at.labels[ZONE] != "a" for one in open_claims):
        return None
    return given, {one.key for one in open_claims}


WORLD: tuple[Any, ...] = (
    *NODES,
    storage_class("local"),
    storage_class("fast", provisioner="x.example/y", zones=["a"]),
)


@given(claims(), volumes())
def test_claims_get_on_each_node_what_the_reference_gives(
    asked: list[Claim], every: list[PersistentVolume]
) -> None:
    state = cluster(*WORLD, *asked, *every)
    user = pod("p", spec=uses(*(one.name for one in asked)))
    found = claims_of(state, user)
    assert isinstance(found, PodClaims)
    planner = VolumePlanner(state.volumes, found)

    for at in NODES:
        expected = reference(asked, every, at)
        answer = planner.on_node(at)
        assert bool(answer.reasons) is (expected is None)
        if expected is not None:
            plan = answer.at(at.name)
            given = {one.claim: one.volume for one in plan.bindings}
            assert (given, {one.claim for one in plan.provisions}) == expected


@given(claims(), volumes())
def test_a_pod_is_placed_exactly_if_a_node_takes_its_claims(
    asked: list[Claim], every: list[PersistentVolume]
) -> None:
    """Whatever narrows the search leaves no node out."""
    state = cluster(*WORLD, *asked, *every)
    user = pod("p", spec=uses(*(one.name for one in asked)))

    decision = schedule_one(state, user, ALLOW_ALL_MAPS)

    fitting = {at.name: plan for at in NODES if (plan := reference(asked, every, at)) is not None}
    assert isinstance(decision, Placement) is bool(fitting)
    if isinstance(decision, Placement):
        assert decision.volumes is not None
        given = {one.claim: one.volume for one in decision.volumes.bindings}
        provisioned = {one.claim for one in decision.volumes.provisions}
        assert (given, provisioned) == fitting[decision.node_name]


@given(claims(), volumes(), st.data())
def test_the_index_of_volumes_is_that_of_a_new_process(
    asked: list[Claim], every: list[PersistentVolume], data: st.DataObject
) -> None:
    """Changes, deletions and placements that were taken back leave nothing behind."""
    state = cluster(*WORLD)
    for one in data.draw(volumes()):
        state.volumes.upsert(one)
    for item in asked:
        state.volumes.upsert(item)
    user = pod("p", spec=uses(*(one.name for one in asked)))
    decision = schedule_one(state, user, ALLOW_ALL_MAPS)
    if isinstance(decision, Placement) and decision.volumes is not None:
        state.volumes.assume("uid", decision.volumes)
        state.volumes.restore("uid")
    state.volumes.replace(PersistentVolume, every)
    new_instances = cluster(*WORLD, *asked, *every)

    assert schedule_one(state, user, ALLOW_ALL_MAPS) == schedule_one(
        new_instances, user, ALLOW_ALL_MAPS
    )
