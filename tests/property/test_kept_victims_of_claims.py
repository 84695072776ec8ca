"""Victims for devices of claims do not depend on the decisions before."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Decision
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import cluster, node, pod
from tests.dra import (
    CLASS,
    allocation_json,
    claiming,
    device_class,
    request_json,
    resource_claim,
    resource_slice,
    result_json,
    taint_rule,
)
from tests.unit.plugins.preemption.scene import OWN

EXTENDED = "example.com/gpu"
NODES = ("n1", "n2")
#: The devices of each pool; those of the network are for every node.
DEVICES = (("n1", "gpu-0"), ("n1", "gpu-1"), ("n2", "gpu-0"), ("network", "gpu-0"))
PODS = "abcd"
NEWCOMERS = (
    pod("boss", priority=9, spec=claiming("boss")),
    pod("twin", priority=9, spec=claiming("twin")),
    pod("two", priority=9, spec=claiming("two")),
    pod("middle", priority=5, spec=claiming("boss")),
    pod("extended", priority=9, requests={EXTENDED: 1}),
)

#: A change of the cluster, or the claims that a pod gives back; without claims that is answered.
Change = ev.Event | tuple[str, tuple[str, ...]]


def start() -> Cluster:
    wanted = (
        *(resource_claim(name, request_json()) for name in ("boss", "twin")),
        resource_claim("two", request_json(count=2)),
    )
    served = device_class(CLASS, extendedResourceName=EXTENDED)
    slices = (
        resource_slice("n1", "gpu-0", "gpu-1"),
        resource_slice("n2", "gpu-0"),
        resource_slice("network", "gpu-0", allNodes=True),
    )
    held = [claim(name, place, users=[name]) for name, place in zip(PODS, DEVICES, strict=True)]
    return cluster(*map(node, NODES), served, *slices, *wanted, *held, *map(user, PODS))


def claim(name: str, place: tuple[str, str] | None, **more: Any) -> ResourceClaim:
    """A claim that has a device, or none."""
    if place is None:
        return resource_claim(name, **more)
    pool, device = place
    where = {"node": "n1" if pool == "network" else pool}
    given = allocation_json(result_json(device, pool), **where)
    return resource_claim(name, allocation=given, **more)


def user(name: str, where: str = "n1", of: str = "", priority: int = 0) -> Pod:
    """A pod that names a claim, its own if no other is said."""
    spec, phase = claiming(of or name), "Running" if where else "Pending"
    return pod(name, node=where, phase=phase, priority=priority, spec=spec)


@st.composite
def pods(draw: st.DrawFn) -> ev.Event:
    """A pod, mostly placed, that names a claim; or its end."""
    name = draw(st.sampled_from(PODS))
    if draw(st.integers(0, 4)) == 0:
        return ev.PodDeleted(pod(name).uid)
    where, of = draw(st.sampled_from([*NODES, ""])), draw(st.sampled_from([name, *PODS]))
    return ev.PodUpdated(user(name, where, of, draw(st.sampled_from([0, 5]))))


@st.composite
def claims(draw: st.DrawFn) -> ev.Event:
    """A claim that has a device or none, and its users; or its deletion."""
    name = draw(st.sampled_from(PODS))
    if draw(st.integers(0, 5)) == 0:
        return ev.DraDeleted(ResourceClaim, f"team/{name}")
    own = DEVICES[PODS.index(name)]
    found = claim(
        name,
        draw(st.sampled_from([own, own, *DEVICES, None])),
        users=draw(st.lists(st.sampled_from(PODS), max_size=2, unique=True)),
        owner=draw(st.sampled_from(["", "", "team-a", "team-gone"])),
        deleting=draw(st.sampled_from([False, False, True])),
    )
    return ev.DraUpdated(found)


def other() -> st.SearchStrategy[Change]:
    """Devices that are published and tainted, and claims that are given back."""
    releases = [(pod(name).uid, keys) for name in PODS for keys in ((f"team/{name}",), ())]
    return st.sampled_from(
        [
            ev.DraUpdated(resource_slice("n1", "gpu-0", generation=2)),
            ev.DraUpdated(resource_slice("n1", "gpu-0", "gpu-1", generation=3)),
            ev.DraUpdated(taint_rule(device="gpu-1")),
            *releases,
        ]
    )


def apply(state: Cluster, change: Change) -> None:
    if not isinstance(change, tuple):
        fold(state, change)
    elif change[1]:
        state.dra.releases.begin(*change)
    else:
        state.dra.end_release(change[0])


def decisions(state: Cluster) -> list[Decision]:
    return [schedule_one(state, newcomer, OWN) for newcomer in NEWCOMERS]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(pods(), claims(), pods(), claims(), other()), min_size=1, max_size=8))
def test_victims_do_not_depend_on_the_decisions_before(changes: list[Change]) -> None:
    warm = start()
    for number, change in enumerate(changes):
        apply(warm, change)
        cold = start()
        for one in changes[: number + 1]:
            apply(cold, one)

        assert decisions(warm) == decisions(cold)
