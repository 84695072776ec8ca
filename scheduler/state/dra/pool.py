"""The pools of devices that one node can use (kube-scheduler: ``structured.GatherPools``).

A pool is the slices of its newest generation. Nothing is allocated from a pool that is incomplete,
because its driver is about to write the rest, nor from one that contradicts itself or is too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from scheduler.model.cached import cached
from scheduler.model.dra.device import Device
from scheduler.model.dra.resource_slice import PoolId, ResourceSlice
from scheduler.model.limits import NODE_DEVICES_MAX, POOL_DEVICES_MAX
from scheduler.state.dra.mig_cards import MigCard, mig_cards

#: The amounts of a pool's counters: counter set and counter -> nano units.
Counters = dict[tuple[str, str], int]


class Pool(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One pool, as one node has it.

    ``slices`` are those with devices for the node, by name; ``others`` are the rest of a complete
    pool. ``problem`` says what contradicts itself, or how many devices are too many.
    """

    id: PoolId
    slices: tuple[ResourceSlice, ...] = ()
    others: tuple[ResourceSlice, ...] = ()
    counters: Counters = {}
    is_incomplete: bool = False
    problem: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether devices can be allocated from it."""
        return not self.is_incomplete and not self.problem

    @property
    def size(self) -> int:
        """How many devices it has for the node."""
        return _size(self.slices)

    @cached
    def has_conditions(self) -> bool:
        """Whether a device for the node has binding conditions: such pools come last."""
        return any(device.binding_conditions for one in self.slices for device in one.devices)

    @cached
    def has_groups(self) -> bool:
        """Whether a device may share its counters only with some others."""
        every = (device for one in (*self.slices, *self.others) for device in one.devices)
        return any(use.groups for device in every for use in device.consumes)

    @cached
    def mig_cards(self) -> Mapping[str, MigCard]:
        """The GPUs with MIG partitions, by their counter sets."""
        return mig_cards(self.by_name.values(), self.counters)

    @cached
    def by_name(self) -> Mapping[str, Device]:
        """Every device of the pool by its name, those of other nodes too."""
        every = (device for one in (*self.slices, *self.others) for device in one.devices)
        return {device.name: device for device in every}


def is_for_node(one: ResourceSlice, node_name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node can use a device of the slice."""
    if one.nodes:
        return one.nodes.admits(node_name, labels)
    return one.per_device_nodes and any(
        device.nodes.admits(node_name, labels) for device in one.devices
    )


def pool_on_node(
    pool_id: PoolId,
    mine: Sequence[ResourceSlice],
    every: Sequence[ResourceSlice],
    before: int | None = None,
) -> Pool | None:
    """A pool for a node: ``mine`` are its slices for the node, ``every`` all of its slices.

    ``before`` are the devices of the node's other pools; None where the pool is that of all nodes.

    None where the driver is replacing the generation that the node would have, and the newest one
    has nothing for the node.
    """
    generation = max(one.generation for one in mine)
    mine = sorted((one for one in mine if one.generation == generation), key=lambda one: one.name)
    count = mine[0].slice_count
    if len(mine) == count:
        return _built(pool_id, mine, (), before)
    if any(one.generation > generation for one in every):
        return None
    names = {one.name for one in mine}
    others = [one for one in every if one.generation == generation and one.name not in names]
    if len(mine) + len(others) != count:
        return Pool(id=pool_id, is_incomplete=True)
    return _built(pool_id, mine, sorted(others, key=lambda one: one.name), before)


def _built(
    pool_id: PoolId,
    mine: Sequence[ResourceSlice],
    others: Sequence[ResourceSlice],
    before: int | None,
) -> Pool:
    """A complete pool; slices with counter sets have no devices."""
    slices = tuple(one for one in mine if not one.counter_sets)
    rest = tuple(one for one in others if not one.counter_sets)
    counters: Counters = {}
    problem = (
        _too_large(mine, others, before)
        or _unread((*mine, *others))
        or _repeated(slices)
        or _read_counters((*mine, *others), counters)
        or _unknown_counter((*slices, *rest), counters)
    )
    if problem:
        return Pool(id=pool_id, problem=problem)
    return Pool(id=pool_id, slices=slices, others=rest, counters=counters)


def _too_large(
    mine: Sequence[ResourceSlice], others: Sequence[ResourceSlice], before: int | None
) -> str:
    """Checked first: every other check reads all devices."""
    count = _size(mine)
    if before is not None and before + count > NODE_DEVICES_MAX:
        return f"{before + count} devices of one node; the limit is {NODE_DEVICES_MAX}"
    count += _size(others)
    return f"{count} devices; the limit is {POOL_DEVICES_MAX}" if count > POOL_DEVICES_MAX else ""


def _size(slices: Iterable[ResourceSlice]) -> int:
    return sum(len(one.devices) for one in slices)


def _unread(slices: Iterable[ResourceSlice]) -> str:
    return next((f"slice {one.name}: {one.unread}" for one in slices if one.unread), "")


def _repeated(slices: Iterable[ResourceSlice]) -> str:
    seen: set[str] = set()
    for one in slices:
        for device in one.devices:
            if device.name in seen:
                return f"duplicate device name {device.name}"
            seen.add(device.name)
    return ""


def _read_counters(slices: Iterable[ResourceSlice], counters: Counters) -> str:
    """Enter the counters of the pool."""
    seen: set[str] = set()
    for one in slices:
        for counter_set in one.counter_sets:
            if counter_set.name in seen:
                return f"duplicate counter set name {counter_set.name}"
            seen.add(counter_set.name)
            for name, value in counter_set.counters.items():
                counters[counter_set.name, name] = value
    return ""


def _unknown_counter(slices: Iterable[ResourceSlice], counters: Counters) -> str:
    for one in slices:
        for device in one.devices:
            for use in device.consumes:
                for name in use.counters:
                    if (use.counter_set, name) not in counters:
                        return f"counter {name} not found in counter set {use.counter_set}"
    return ""
