"""What nodes have for teams, and what the devices of claims are worth."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from scheduler.model import well_known
from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.dra.device import Device
from scheduler.model.dra.resource_slice import PoolId
from scheduler.model.mig.profile import nominal_mib
from scheduler.model.teams.amount import (
    NOTHING,
    GpuAmount,
    GpuKind,
    kind_of,
    profile_amount,
    whole_gpu,
)
from scheduler.state.capacity.node_devices import GPU, PRODUCT_ATTRIBUTE
from scheduler.state.dra.published_devices import PublishedDevice, published_devices
from scheduler.state.dra.store import DraStore
from scheduler.state.node_info import NodeInfo

_MIB = 1024 * 1024
_NANO = 10**9
_MEMORY = ("memory", well_known.DRA_DRIVER + "/memory")


def kind_on(node_info: NodeInfo, dra: DraStore) -> GpuKind:
    """What devices of a node that exists are worth; where only DRA shows them, by its devices."""
    node = node_info.node
    assert node is not None, "a node that only its pods name has no devices"
    kind = kind_of(node)
    if node_info.dra is None or kind.whole.mib:
        return kind
    gpus = (_worth(one) for one in published_devices(dra, node) if one.unit == GPU)
    return msgspec.structs.replace(kind, whole=next(gpus, kind.whole))


def node_capacity(node_info: NodeInfo, kind: GpuKind, dra: DraStore) -> GpuAmount:
    """The healthy devices of a node that exists: of a device plugin, by index, and of DRA."""
    node = node_info.node
    assert node is not None, "a node that only its pods name has no capacity"
    if node.dynamic_mig is not None:
        return kind.whole.times(max(0, node.dynamic_mig.count - len(node.failed_gpus)))
    found = NOTHING
    for resource in node.devices:
        found = found.plus(kind.of(resource, node.allocatable.get(resource, 0)))
    if node_info.dra is not None:
        return found.plus(_published(node_info, dra))
    if not node.devices and node.is_index_assigned:
        found = kind.whole.times(len(frozenset(node.indexes) - node.failed_gpus))
    return found


def claim_amount(dra: DraStore, allocation: Allocation) -> GpuAmount | None:
    """What the devices of a claim are worth; None if one of them is not published.

    Access for administration holds nothing.
    """
    found = NOTHING
    for result in allocation.results:
        if result.admin_access:
            continue
        device = _device(dra, result)
        if device is None:
            return None
        found = found.plus(_granted(device, result, len(dra.holders.of(device.id))))
    return found


def plan_amount(dra: DraStore, plan: ClaimPlan) -> GpuAmount:
    """What the devices are worth that a placement gives to claims of its pod."""
    found = NOTHING
    for allocation in plan.allocations:
        found = found.plus(claim_amount(dra, allocation) or NOTHING)
    return found


def _granted(device: Device, result: DeviceResult, holders: int) -> GpuAmount:
    """A whole device, or the part of one that several claims share."""
    whole = _worth(PublishedDevice(device=device))
    if not result.is_shared:
        return whole
    parts = [
        Fraction(amount, device.capacities[name].value)
        for name, amount in result.consumed.items()
        if name in device.capacities and device.capacities[name].value > 0
    ]
    return whole.times(min(Fraction(1), max(parts, default=Fraction(1, max(1, holders)))))


def _published(node_info: NodeInfo, dra: DraStore) -> GpuAmount:
    """GPUs of DRA drivers: partitions of one card are worth the card."""
    assert node_info.node is not None, "a node that only its pods name has no devices"
    cards: dict[tuple[str, ...], GpuAmount] = {}
    for one in published_devices(dra, node_info.node):
        worth = NOTHING if one.is_tainted else _worth(one)
        if not worth:
            continue
        device = one.device
        if device.consumes:
            key = (device.driver, device.pool, device.consumes[0].counter_set)
            product = device.attribute(PRODUCT_ATTRIBUTE)
            card = whole_gpu(product if isinstance(product, str) else "", 0, one.unit)
            known = cards.get(key, NOTHING)
            cards[key] = max(known, worth, card, key=lambda each: (each.slices, each.mib))
        else:
            cards[device.driver, device.pool, "", device.name] = worth
    found = NOTHING
    for worth in cards.values():
        found = found.plus(worth)
    return found


def _worth(one: PublishedDevice) -> GpuAmount:
    """A whole GPU or a partition; devices of other kinds are worth nothing."""
    if nominal_mib(one.unit):
        return profile_amount(one.unit)
    if one.unit != GPU:
        return NOTHING
    product = one.device.attribute(PRODUCT_ATTRIBUTE)
    memory = next(
        (
            one.device.capacities[name].value // _NANO // _MIB
            for name in _MEMORY
            if name in one.device.capacities
        ),
        0,
    )
    return whole_gpu(product if isinstance(product, str) else "", memory)


def _device(dra: DraStore, result: DeviceResult) -> Device | None:
    pool = dra.pools.whole(PoolId(result.driver, result.pool))
    for one in pool.slices if pool is not None else ():
        for device in one.devices:
            if device.name == result.device:
                return device
    return None
