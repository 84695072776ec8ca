"""The shares of GPUs that DRA drivers publish for a node, by the claims that have them.

A pod holds the devices of its claims; pods that share a claim hold equal parts. The devices of one
card are one GPU: partitions and the whole card take from the same counters. Of a device that is
given in shares a claim holds the largest share of a capacity that it takes, or an equal part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

from scheduler.model import well_known
from scheduler.model.cost.share import ONE, ZERO, slice_share
from scheduler.model.dra.allocation import DeviceResult
from scheduler.model.dra.device import Device, DeviceId
from scheduler.model.dra.resource_slice import PoolId
from scheduler.model.mig.gpu_models import gpu_model_of
from scheduler.model.mig.node_geometry import memory_mib
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.capacity.gpu_pools import CutGpu, Entry, Pools
from scheduler.state.capacity.node_devices import GPU, PRODUCT_ATTRIBUTE, is_slice, node_problem
from scheduler.state.dra.mig_cards import MigCard
from scheduler.state.dra.published_devices import PublishedDevice, published_devices
from scheduler.state.dra.store import DraStore
from scheduler.state.node_info import NodeInfo

#: The attribute of a partition with its card, where cards have no counters.
_PARENT: Final = well_known.DRA_DRIVER + "/parentUUID"

Card = list[PublishedDevice]


def claim_shares(node_info: NodeInfo, store: DraStore, pools: Pools, seen: set[DeviceId]) -> str:
    """Count the GPUs of DRA drivers; returns the name of the board."""
    node = node_info.node
    assert node is not None, "a node that only its pods name has no devices"
    product = ""
    cards: dict[tuple[str, ...], Card] = {}
    for one in published_devices(store, node):
        unit = one.unit
        if one.id in seen or not (unit == GPU or is_slice(unit)):
            continue
        seen.add(one.id)
        found = one.device.attribute(PRODUCT_ATTRIBUTE)
        product = product or (found if isinstance(found, str) else "")
        cards.setdefault(_card_of(one), []).append(one)
    if cards:
        users = _users(node_info, store)
        for key, devices in cards.items():
            _add_card(node, store, users, key, devices, pools)
    return product


def _card_of(one: PublishedDevice) -> tuple[str, ...]:
    """What the devices of one GPU have in common; slices of unknown cards are counted together."""
    device = one.device
    if device.consumes:
        return device.driver, device.pool, device.consumes[0].counter_set
    if not is_slice(one.unit):
        return device.driver, device.pool, "", device.name
    parent = device.attribute(_PARENT)
    return device.driver, device.pool, "parent", parent if isinstance(parent, str) else ""


def _users(node_info: NodeInfo, store: DraStore) -> dict[str, list[Pod]]:
    """The pods of the node by their claims."""
    users: dict[str, list[Pod]] = {}
    for pod, _ in node_info.pods.values():
        for key in store.keys_of(pod):
            users.setdefault(key, []).append(pod)
    return users


def _add_card(
    node: Node,
    store: DraStore,
    users: dict[str, list[Pod]],
    key: tuple[str, ...],
    devices: Card,
    pools: Pools,
) -> None:
    """Count one GPU, or the slices of a node whose cards are unknown."""
    shares = {one.id: _share(node, one) for one in devices}
    entries: list[Entry] = []
    for one in devices:
        if one.is_held:
            entries += _entries(store, users, one.device, shares[one.id])
    if key[2:] == ("parent", ""):
        every = sum(shares.values(), ZERO)
        left = pools.add(-(-every.numerator // every.denominator), entries)
    else:
        left = pools.add(1, entries)
    if left:
        _add_idle(node, _mig_card(node, store, devices), devices, shares, left, pools)


def _mig_card(node: Node, store: DraStore, devices: Card) -> MigCard | None:
    device = devices[0].device
    if not device.consumes:
        return None
    pool_id = PoolId(device.driver, device.pool)
    for pool in store.pools.on_node(node.name, node.labels):
        if pool.id == pool_id:
            return pool.mig_cards.get(device.consumes[0].counter_set)
    return None


def _add_idle(
    node: Node,
    card: MigCard | None,
    devices: Card,
    shares: dict[DeviceId, Fraction],
    left: Fraction,
    pools: Pools,
) -> None:
    held = [one.device.name for one in devices if one.is_held]
    failed = [one for one in devices if one.is_tainted and not one.is_held]
    if len(failed) + len(held) == len(devices) and failed:
        pools.rest(left, failed=left)
    elif node_problem(node):
        pools.unavailable(left)
    elif not held:
        pools.rest(left, free=left)
    elif card is not None:
        pools.cut.append(CutGpu(card.gpu_model, card.layout(held), left))
    else:
        free = sum((shares[one.id] for one in devices if one.is_free), ZERO)
        if any(one.device.allow_multiple for one in devices):
            free = left
        pools.stranded(pools.rest(left, free=free))


def _share(node: Node, one: PublishedDevice) -> Fraction:
    """The share of a GPU that a whole device is."""
    if not is_slice(one.unit):
        return ONE
    found = one.device.attribute(PRODUCT_ATTRIBUTE)
    product = found if isinstance(found, str) else node.labels.get(well_known.GPU_PRODUCT, "")
    memory = memory_mib(node.labels)
    return slice_share(gpu_model_of(product, memory, (one.unit,)), one.unit, memory)


def _entries(
    store: DraStore, users: dict[str, list[Pod]], device: Device, share: Fraction
) -> Iterable[Entry]:
    """The shares of a device, claim by claim and pod by pod."""
    keys = store.holders.of(device.id)
    for key in keys:
        part = share * _part(store, key, device, len(keys))
        namespace = key.partition("/")[0]
        is_degraded = key in store.degraded
        pods: Sequence[Pod | None] = users.get(key) or (None,)
        for pod in pods:
            yield Entry(namespace, pod, part / len(pods), is_degraded)


def _part(store: DraStore, key: str, device: Device, holders: int) -> Fraction:
    """The part of a device that a claim has."""
    allocation = store.counted(key)
    results = [one for one in allocation.results if one.id == device.id] if allocation else []
    if not any(one.is_shared for one in results):
        return ONE
    consumed = sum((_consumed(device, one) for one in results), ZERO)
    return min(ONE, consumed) if consumed else Fraction(1, holders)


def _consumed(device: Device, result: DeviceResult) -> Fraction:
    return max(
        (
            Fraction(amount, device.capacities[name].value)
            for name, amount in result.consumed.items()
            if name in device.capacities and device.capacities[name].value > 0
        ),
        default=ZERO,
    )
