"""The free units for a container: the scheduler's choice for it, else the best spread.

The kubelet requests a number of units of a resource without naming the pod. But it admits one pod
after the other: at that time its list has the earlier pods with their devices, the current pod, and
no later one. So the current pod is the one in the list whose container requests exactly this and
holds nothing yet. If the list is unknown, it is the only pod whose choice is free; otherwise
devices chosen for a pod are allocated last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fakegpu.node.advertised_devices import Device, physical, supply
from fakegpu.node.device_assignment import chosen_ids
from fakegpu.node.pod_devices import PodUse
from fakegpu.topology.node_topology import NodeTopology


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet's request; ``must`` are units that it has reserved for the container."""

    resource: str
    count: int
    available: Sequence[str]
    must: Sequence[str] = ()


class Known(msgspec.Struct, frozen=True):
    """The kubelet's lists: the admitted pods, and the containers with units.

    Both by names: (namespace, pod) and (namespace, pod, container).
    """

    pods: frozenset[tuple[str, str]] = frozenset()
    holders: frozenset[tuple[str, str, str]] = frozenset()


def preferred(
    topology: NodeTopology, ask: Ask, pods: Sequence[PodUse], known: Known
) -> tuple[str, ...]:
    """The units to allocate, preferred ones first; fewer if there are not enough."""
    free = set(ask.available)
    open_choices = {
        (pod.uid, container): choice
        for pod in pods
        for container, choice in _choices(topology, pod, ask.resource)
        if free.issuperset(choice)
    }
    choices = {
        key: choice
        for key, choice in open_choices.items()
        if len(choice) == ask.count and set(ask.must) <= set(choice)
    }
    askers = [key for pod in pods for key in _asking(pod, ask, known)]
    if len({uid for uid, _ in askers}) == 1:
        if askers[0] in choices:
            return choices[askers[0]]
    elif len({uid for uid, _ in choices}) == 1:
        return next(iter(choices.values()))
    claimed = {one for choice in open_choices.values() for one in choice}
    units = supply(topology).get(ask.resource, ())
    left = [unit for unit in units if unit.id in free and unit.id not in ask.must]
    ordered = _spread([*ask.must], left, units, free)
    unclaimed = [one for one in ordered if one not in claimed]
    wanted = dict.fromkeys((*ask.must, *unclaimed, *ordered, *ask.available))
    return tuple(wanted)[: ask.count]


def _asking(pod: PodUse, ask: Ask, known: Known) -> Iterator[tuple[str, str]]:
    """The containers of a pod to which the request may belong, in their order."""
    if (pod.namespace, pod.name) not in known.pods:
        return
    for need in pod.needs:
        holds = (pod.namespace, pod.name, need.container) in known.holders
        if (need.resource, need.count) == (ask.resource, ask.count) and not holds:
            yield pod.uid, need.container


def _choices(
    topology: NodeTopology, pod: PodUse, resource: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The choices for the containers of a pod that request a resource, in their order."""
    ids = chosen_ids(topology, pod).get(resource, [])
    for need in pod.needs:
        if need.resource == resource:
            share, ids = ids[: need.count], ids[need.count :]
            if len(share) == need.count:
                yield need.container, tuple(share)


def _spread(
    taken: list[str], left: list[Device], units: Sequence[Device], free: set[str]
) -> list[str]:
    """Shared devices: each next unit from the device with the fewest used; others by index."""
    load: dict[str, int] = {}
    for unit in units:
        is_taken = unit.id not in free or unit.id in taken
        load[physical(unit.id)] = load.get(physical(unit.id), 0) + is_taken
    found = []
    while left:
        unit = min(left, key=lambda one: (load[physical(one.id)], one.gpu, one.position or 0))
        left.remove(unit)
        load[physical(unit.id)] += 1
        found.append(unit.id)
    return found


def refusal(topology: NodeTopology, resource: str, count: int) -> str:
    """Why a container may not have this number; an empty text if it may."""
    sharing = topology.shared
    if count < 2 or not sharing.fail_requests_greater_than_one:
        return ""
    if resource not in (one.offered for one in sharing.resources):
        return ""
    return (
        f"request for '{resource}: {count}' too large: maximum request size for shared resources"
        " is 1 (sharing.timeSlicing.failRequestsGreaterThanOne)"
    )
