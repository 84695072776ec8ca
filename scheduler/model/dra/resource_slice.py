"""ResourceSlices and DeviceTaintRules, as far as decisions read them (``resource.k8s.io/v1``)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from scheduler.model.dra.device import NO_NODE, Device, DeviceTaint, NodeChoice


class PoolId(NamedTuple):
    """A pool: the devices that one driver manages together."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class CounterSet(msgspec.Struct, frozen=True):
    """Counters that the devices of a pool share, in nano units."""

    name: str
    counters: dict[str, int] = {}


class ResourceSlice(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One ResourceSlice: devices, or counter sets, of a pool.

    The slices with the highest ``generation`` are the pool; it is complete where there are
    ``slice_count`` of them. ``nodes`` says where its devices can be used; with
    ``per_device_nodes`` each device says it. ``skip_node_operations`` is repeated in allocations
    (feature DRAOptionalNodeOperations). ``unread`` says what of it cannot be read: then its pool is
    invalid.
    """

    name: str
    driver: str
    pool: str
    generation: int = 0
    slice_count: int = 1
    nodes: NodeChoice = NO_NODE
    per_device_nodes: bool = False
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()
    unread: str = ""

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def pool_id(self) -> PoolId:
        """The pool that it belongs to."""
        return PoolId(self.driver, self.pool)


class DeviceTaintRule(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One DeviceTaintRule: a taint of the devices that it selects.

    None selects any driver, pool or device; a rule that ``selects_none`` has no selector.
    ``unread`` says what of it cannot be read: then it selects nothing.
    """

    name: str
    taint: DeviceTaint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    selects_none: bool = False
    unread: str = ""

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def selects(self, device: Device) -> bool:
        """Whether the device gets the taint (``resourceslice/tracker``)."""
        return (
            not self.selects_none
            and self.driver in (None, device.driver)
            and self.pool in (None, device.pool)
            and self.device in (None, device.name)
        )
