"""The devices that DRA drivers publish for a node: which are held, by whom, and which are free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.dra.device import NO_EXECUTE, NO_SCHEDULE, Device, DeviceId
from scheduler.model.node import Node
from scheduler.state.dra.pool import Counters
from scheduler.state.dra.store import DraStore

_HARD: Final = (NO_SCHEDULE, NO_EXECUTE)


class PublishedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a node.

    A device that is not held ``is_free`` if the counters that it takes are left. A tainted one is
    given to no request without a toleration; drivers taint devices that failed.
    """

    device: Device
    is_held: bool = False
    is_free: bool = False
    is_tainted: bool = False

    @property
    def id(self) -> DeviceId:
        """Its identity in the cluster."""
        return self.device.id

    @property
    def unit(self) -> str:
        """What one such device is: a MIG profile, ``gpu``, or the name of another driver."""
        profile = self.device.attribute(well_known.PROFILE_ATTRIBUTE)
        if isinstance(profile, str) and profile:
            return profile.replace("+", ".")
        return "gpu" if self.device.driver == well_known.DRA_DRIVER else self.device.driver


def published_devices(store: DraStore, node: Node) -> Iterator[PublishedDevice]:
    """The devices of the pools that the node can use, in kube-scheduler's order."""
    for pool in store.pools.on_node(node.name, node.labels):
        used = store.in_use.of_pool(pool.id)
        left = store.in_use.free_counters(pool) if pool.counters else {}
        for one in pool.slices if pool.is_usable else ():
            for device in one.devices:
                if not one.per_device_nodes or device.nodes.admits(node.name, node.labels):
                    taints = store.taints(device)
                    is_tainted = bool(taints) and any(t.effect in _HARD for t in taints)
                    is_held = device.name in used
                    yield PublishedDevice(
                        device=device,
                        is_held=is_held,
                        is_free=not is_held and not is_tainted and _has_counters(device, left),
                        is_tainted=is_tainted,
                    )


def holders(store: DraStore, device: DeviceId) -> Iterator[str]:
    """The pods that reserved a device; its claim, where no pod has."""
    for key in store.holders.of(device):
        claim = store.claim(key)
        if claim is not None:
            yield from [one.name for one in claim.reserved_for] or [claim.name]


def _has_counters(device: Device, left: Counters) -> bool:
    return all(
        value <= left[use.counter_set, name]
        for use in device.consumes
        for name, value in use.counters.items()
    )
