"""How many devices of the class of an extended resource a node has, and how many are free.

An upper bound: each device is looked at by itself, with the counters and the capacity that are left
now. The allocator decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.dra.cel.engine import SelectorError, compile_selector
from scheduler.model.dra.device import NO_EXECUTE, NO_SCHEDULE, Device, DeviceTaint
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.dra.gpu_indexes import GpuIndexes, gpu_indexes, is_indexed
from scheduler.model.node import Node
from scheduler.state.dra.extended_classes import ExtendedClasses
from scheduler.state.dra.in_use import DevicesInUse
from scheduler.state.dra.pool import Pool
from scheduler.state.dra.pools import Pools

#: Effects of device taints that keep a request without tolerations away.
_HARD: Final = (NO_SCHEDULE, NO_EXECUTE)
#: The shares of a device without capacities that are counted: one claim can have so many.
_SHARES_MAX: Final = 32
#: The counters of a pool of which something is used: counter set -> counter -> what is left.
_Short = Mapping[str, Mapping[str, int]]
_OfClass = tuple[DeviceClass, tuple[tuple[Pool, Device], ...]]


class _Selected(msgspec.Struct, frozen=True):
    """The pools of a node; by resource its class and the devices that this selects."""

    pools: tuple[Pool, ...]
    profiles: frozenset[str]
    gpus: GpuIndexes | None
    by_resource: dict[str, _OfClass]


class DeviceCounts(msgspec.Struct, frozen=True):
    """The devices of one node by extended resource: all of them, and those that are free.

    ``classes`` has the class of every extended resource, those too that are not counted.
    ``profiles`` are the resources that stand for the MIG partitions of NVIDIA's driver here,
    whether or not they have a class. ``gpus`` are the indexes of GPUs; None if no device is one.
    """

    total: dict[str, int]
    free: dict[str, int]
    classes: Mapping[str, str]
    profiles: frozenset[str] = frozenset()
    gpus: GpuIndexes | None = None

    @property
    def has_gpus(self) -> bool:
        """Whether a GPU driver publishes devices here, of an extended resource or not."""
        return self.gpus is not None or bool(self.profiles)

    def more_than(self, before: DeviceCounts | None) -> frozenset[str]:
        """The resources of which more is free than before; every one where there was no pool."""
        if before is None:
            return frozenset(self.classes)
        return frozenset(r for r, free in self.free.items() if free > before.free.get(r, 0))


class DeviceCounter:
    """Counts devices of nodes; which devices a class selects is remembered until either changes.

    ``index_attributes`` has the attribute with the index of a GPU, by driver.
    """

    def __init__(
        self,
        pools: Pools,
        in_use: DevicesInUse,
        extended: ExtendedClasses,
        taints: Callable[[Device], tuple[DeviceTaint, ...]],
        index_attributes: Mapping[str, str],
    ) -> None:
        self._pools = pools
        self._in_use = in_use
        self._extended = extended
        self._taints = taints
        self._index_attributes = index_attributes
        self._selected: dict[str, _Selected] = {}

    def counting(self, in_use: DevicesInUse) -> DeviceCounter:
        """A counter for another use of the same devices."""
        twin = copy(self)
        twin._in_use = in_use
        return twin

    def on_node(self, node: Node) -> DeviceCounts | None:
        """The counts of a node; None where it has no pool."""
        pools = self._pools.on_node(node.name, node.labels)
        if not pools:
            self._selected.pop(node.name, None)
            return None
        selected = self._selected_of(node, pools)
        states = {
            id(pool): (self._in_use.of_pool(pool.id), _short_counters(pool, self._in_use))
            for pool in pools
        }
        total: dict[str, int] = {}
        free: dict[str, int] = {}
        for resource, (_, devices) in selected.by_resource.items():
            count = 0
            for pool, device in devices:
                used, short = states[id(pool)]
                count += self._free(device, used, short)
            total[resource], free[resource] = len(devices), count
        classes = self._extended.classes
        return DeviceCounts(total, free, classes, selected.profiles, selected.gpus)

    def _selected_of(self, node: Node, pools: tuple[Pool, ...]) -> _Selected:
        known = self._selected.get(node.name)
        if known is None or known.pools is not pools:
            profiles, gpus = frozenset(_profiles(pools)), _gpus(node, pools, self._index_attributes)
            known = self._selected[node.name] = _Selected(pools, profiles, gpus, {})
        before = dict(known.by_resource)
        known.by_resource.clear()
        for resource, device_class in self._extended.named.items():
            found = before.get(resource)
            if found is None or found[0] is not device_class:
                found = (device_class, tuple(_selected(node, pools, device_class)))
            known.by_resource[resource] = found
        return known

    def _free(self, device: Device, used: Mapping[str, int], short: _Short | None) -> int:
        """How often a request without tolerations could have a device now; ``used`` are the devices
        of its pool that are allocated.
        """
        is_used = device.name in used
        if is_used and (not device.allow_multiple or self._in_use.is_whole(device.id)):
            return 0
        taints = self._taints(device)
        if taints and any(taint.effect in _HARD for taint in taints):
            return 0
        if device.consumes and not is_used and (short is None or not _has_left(device, short)):
            return 0
        return self._shares(device) if device.allow_multiple else 1

    def _shares(self, device: Device) -> int:
        """How many more shares of the usual size a device has."""
        consumed = self._in_use.consumed(device.id)
        found = _SHARES_MAX
        for name, capacity in device.capacities.items():
            policy = capacity.policy
            usual = policy.default if policy is not None else None
            size = capacity.value if usual is None else usual
            if size > 0:
                found = min(found, (capacity.value - consumed.get(name, 0)) // size)
        return max(0, found)


def _profiles(pools: Iterable[Pool]) -> Iterator[str]:
    """The resources of the profiles that MIG partitions have."""
    for pool in pools:
        for device in pool.by_name.values() if pool.id.driver == well_known.DRA_DRIVER else ():
            profile = device.attribute(well_known.PROFILE_ATTRIBUTE)
            if isinstance(profile, str):
                yield well_known.MIG_PREFIX + profile.replace("+", ".")


def _gpus(node: Node, pools: tuple[Pool, ...], attributes: Mapping[str, str]) -> GpuIndexes | None:
    """The indexes of the node's GPUs; unknown while a driver writes its slices."""
    for pool in pools:
        if not pool.is_usable and is_indexed(pool.id.driver, attributes):
            state = "being updated" if pool.is_incomplete else f"invalid ({pool.problem})"
            return GpuIndexes(problem=f"pool {pool.id} is {state}")
    return gpu_indexes((device for _, device in _usable(node, pools)), attributes)


def _usable(node: Node, pools: Iterable[Pool]) -> Iterator[tuple[Pool, Device]]:
    """The devices that a node can use."""
    for pool in pools:
        for one in pool.slices if pool.is_usable else ():
            for device in one.devices:
                if not one.per_device_nodes or device.nodes.admits(node.name, node.labels):
                    yield pool, device


def _selected(
    node: Node, pools: Iterable[Pool], device_class: DeviceClass
) -> Iterator[tuple[Pool, Device]]:
    """The devices of a node that a class selects."""
    for pool, device in _usable(node, pools):
        if all(_matches(text, device) for text in device_class.selectors):
            yield pool, device


def _matches(selector: str, device: Device) -> bool:
    """A selector that fails counts as one that matches: the allocator says what is wrong."""
    try:
        return compile_selector(selector).matches(device)
    except SelectorError:
        return True


def _short_counters(pool: Pool, in_use: DevicesInUse) -> _Short | None:
    """The counters of which something is used; None where more is used than there is."""
    short: dict[str, dict[str, int]] = {}
    for (counter_set, counter), left in in_use.free_counters(pool).items():
        if left < 0:
            return None
        if left < pool.counters[counter_set, counter]:
            short.setdefault(counter_set, {})[counter] = left
    return short


def _has_left(device: Device, short: _Short) -> bool:
    for use in device.consumes:
        counters = short.get(use.counter_set)
        if counters is not None:
            taken = use.counters
            for counter, left in counters.items():
                if taken.get(counter, 0) > left:
                    return False
    return True
