"""Whether an allocation is one that kube-scheduler's rules allow, checked without a search.

It is independent on purpose: it shares no code with the allocator and with the check of the product
(``state/dra/collisions``) but the values and the rounding of capacities, which have golden vectors
of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.dra.claim import ALL, ExactRequest, ResourceClaim
from scheduler.model.dra.device import Device, DeviceId
from scheduler.model.node import Node
from scheduler.plugins.dynamic_resources.allocation.selectors import matches
from scheduler.state.dra.store import DraStore


def devices_of(store: DraStore) -> dict[DeviceId, Device]:
    """Every published device, as the newest generation has it."""
    by_age = sorted(store.pools.slices.values(), key=lambda one: one.generation)
    return {device.id: device for one in by_age for device in one.devices}


def problems(
    store: DraStore, node: Node, claims: Sequence[ResourceClaim], found: Sequence[Allocation]
) -> list[str]:
    """What is wrong with new allocations for a node; ``store`` has those before them."""
    return [
        *_devices_twice(store, found),
        *_overdrawn(store, found),
        *(
            text
            for one, to in zip(claims, found, strict=True)
            for text in _claim(store, node, one, to)
        ),
    ]


def held_twice(allocations: Iterable[Allocation]) -> set[DeviceId]:
    """The devices that more than one result has as a whole."""
    whole = Counter(one.id for one in _results(allocations) if not one.is_shared)
    return {device for device, count in whole.items() if count > 1}


def _results(found: Iterable[Allocation]) -> Iterator[DeviceResult]:
    return (one for allocation in found for one in allocation.results if not one.admin_access)


def _devices_twice(store: DraStore, found: Sequence[Allocation]) -> Iterator[str]:
    used = {*store.in_use.dedicated, *store.in_use.shared}
    used &= {one.id for one in _results(found) if not one.is_shared}
    for device in sorted(held_twice(found) | used):
        yield f"{device} is allocated twice"


def _overdrawn(store: DraStore, found: Sequence[Allocation]) -> Iterator[str]:
    """Counters and capacities below zero, of everything that is allocated then from these pools."""
    devices = devices_of(store)
    pools = {(one.driver, one.pool) for one in _results(found)}
    used = (
        {one.id for one in _results(found)} | set(store.in_use.dedicated) | set(store.in_use.shared)
    )
    of_pools = {one for one in used if (one.driver, one.pool) in pools}
    yield from overdrawn_counters(store, of_pools & devices.keys())
    for device in {one.id for one in _results(found) if devices[one.id].allow_multiple}:
        for name, capacity in devices[device].capacities.items():
            mine = sum(one.consumed.get(name, 0) for one in _results(found) if one.id == device)
            if store.in_use.consumed(device).get(name, 0) + mine > capacity.value:
                yield f"{device} has no {name} left"


def overdrawn_counters(store: DraStore, used: set[DeviceId]) -> Iterator[str]:
    """The counters that devices take more of than there is."""
    devices = devices_of(store)
    left: Counter[tuple[str, str, str, str]] = Counter()
    for one in store.pools.slices.values():
        for counters in one.counter_sets:
            for name, value in counters.counters.items():
                left[one.driver, one.pool, counters.name, name] = value
    for device in used:
        for use in devices[device].consumes:
            for name, value in use.counters.items():
                left[device.driver, device.pool, use.counter_set, name] -= value
    return (f"{key} is below zero" for key, value in left.items() if value < 0)


def _claim(store: DraStore, node: Node, claim: ResourceClaim, found: Allocation) -> Iterator[str]:
    by_request: dict[str, list[DeviceResult]] = {}
    for one in found.results:
        by_request.setdefault(one.request, []).append(one)
    for request in claim.requests:
        names = {request.name_of(one): one for one in request.alternatives}
        met = [name for name in names if name in by_request]
        if len(met) != 1:
            yield f"{claim.name}/{request.name} is met by {met}"
            continue
        yield from _request(store, node, names[met[0]], by_request.pop(met[0]))
    if by_request:
        yield f"{claim.name} has no requests {sorted(by_request)}"
    devices = devices_of(store)
    for constraint in claim.constraints:
        some = [
            devices[one.id]
            for one in found.results
            if not constraint.requests
            or {one.request, one.request.partition("/")[0]} & set(constraint.requests)
        ]
        yield from _constraint(constraint.match, constraint.distinct, some)


def _request(
    store: DraStore, node: Node, exact: ExactRequest, results: Sequence[DeviceResult]
) -> Iterator[str]:
    if exact.mode != ALL and len(results) != exact.count:
        yield f"{exact.name} has {len(results)} devices and asks for {exact.count}"
    if len({one.id for one in results}) != len(results):
        yield f"{exact.name} has a device twice"
    devices = devices_of(store)
    selectors = (*store.classes[exact.class_name].selectors, *exact.selectors)
    names = {
        device.id
        for pool in store.pools.on_node(node.name, node.labels)
        if pool.is_usable
        for one in pool.slices
        for device in one.devices
        if not one.per_device_nodes or device.nodes.admits(node.name, node.labels)
    }
    for one in results:
        device = devices[one.id]
        if one.id not in names:
            yield f"{node.name} cannot use {one.id}"
        if any(matches(text, device) is not True for text in selectors):
            yield f"{exact.name} does not select {one.id}"
        hard = [
            taint for taint in store.taints(device) if taint.effect in ("NoSchedule", "NoExecute")
        ]
        if any(not any(to.tolerates(taint) for to in exact.tolerations) for taint in hard):
            yield f"{exact.name} does not tolerate the taints of {one.id}"
        if not one.admin_access and one.is_shared != device.allow_multiple:
            yield f"{one.id} is allocated as {'a share' if one.is_shared else 'a whole'}"
        yield from _amounts(exact.capacity, one, device)


def _amounts(asked: Mapping[str, int], one: DeviceResult, device: Device) -> Iterator[str]:
    for name, amount in asked.items():
        capacity = device.capacities.get(name)
        if capacity is None or capacity.value < amount:
            yield f"{one.id} has not {amount} of {name}"
        elif device.allow_multiple and one.consumed.get(name, 0) < amount:
            yield f"{one.id} gives less {name} than asked"


def _constraint(match: str, distinct: str, devices: Sequence[Device]) -> Iterator[str]:
    sets = []
    for device in devices:
        value = device.attribute(match or distinct)
        every = value if isinstance(value, tuple) else (value,)
        sets.append({(type(one).__name__, str(one)) for one in every if value is not None})
    if any(not one for one in sets):
        yield f"a device lacks {match or distinct}"
    elif match and sets and not set.intersection(*sets):
        yield f"{match} differs"
    elif distinct and len(set().union(*sets)) != sum(map(len, sets)):
        yield f"{distinct} is equal"
