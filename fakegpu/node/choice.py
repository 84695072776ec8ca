"""Which free units a container is given: what the scheduler chose for it, else the best spread.

The kubelet asks for so many units of a resource and does not say for whom. The scheduler keeps at
most one pod for each resource and count bound and not yet started on a node whose devices it
numbers, so the one whose choice is still free is the one that is asked for. Where that is not
clear, nothing is taken that was chosen for somebody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import UNSET

from fakegpu.node.poduse import PodUse
from fakegpu.node.supply import Device, physical, supply
from fakegpu.node.usage import chosen_ids
from fakegpu.topology.nodetopology import NodeTopology, Sharing


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet's question; ``must`` are units that it has set aside for the container."""

    resource: str
    count: int
    available: Sequence[str]
    must: Sequence[str] = ()


def preferred(topology: NodeTopology, ask: Ask, pods: Iterable[PodUse]) -> tuple[str, ...]:
    """The units to give, the more wanted first; fewer where there are no more."""
    free = set(ask.available)
    choices = [
        (pod.uid, choice)
        for pod in pods
        for choice in _choices(topology, pod, ask)
        if free.issuperset(choice) and set(ask.must) <= set(choice)
    ]
    if len({uid for uid, _ in choices}) == 1:
        return choices[0][1]
    claimed = {one for _, choice in choices for one in choice}
    units = supply(topology).get(ask.resource, ())
    left = [unit for unit in units if unit.id in free and unit.id not in ask.must]
    ordered = _spread([*ask.must], left, units, free)
    unclaimed = [one for one in ordered if one not in claimed]
    wanted = dict.fromkeys((*ask.must, *unclaimed, *ordered, *ask.available))
    return tuple(wanted)[: ask.count]


def _choices(topology: NodeTopology, pod: PodUse, ask: Ask) -> Iterator[tuple[str, ...]]:
    """What was chosen for the containers of a pod that ask for just that, in their order."""
    ids = chosen_ids(topology, pod).get(ask.resource, [])
    for need in pod.needs:
        if need.resource == ask.resource:
            share, ids = ids[: need.count], ids[need.count :]
            if len(share) == need.count == ask.count:
                yield tuple(share)


def _spread(
    taken: list[str], left: list[Device], units: Sequence[Device], free: set[str]
) -> list[str]:
    """Shared devices: each next unit from where the fewest are taken; others by index."""
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
    """Why a container may not have so many; an empty text where it may."""
    sharing = Sharing() if topology.sharing is UNSET else topology.sharing
    if count < 2 or not sharing.fail_requests_greater_than_one:
        return ""
    names = [one.name if one.rename is UNSET else one.rename for one in sharing.resources]
    if resource not in names:
        return ""
    return (
        f"request for '{resource}: {count}' too large: maximum request size for shared resources"
        " is 1 (sharing.timeSlicing.failRequestsGreaterThanOne)"
    )
