"""Which claims have a device, for the reasons of those that cannot get it."""

from __future__ import annotations

from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.device import DeviceId


class DeviceHolders:
    """The keys of the claims with each device; admin access holds nothing."""

    def __init__(self) -> None:
        self._keys: dict[DeviceId, dict[str, None]] = {}

    def of(self, device: DeviceId) -> tuple[str, ...]:
        """The claims with a device, in the order in which they got it."""
        return tuple(self._keys.get(device, ()))

    def add(self, key: str, allocation: Allocation) -> None:
        """A claim is allocated."""
        for one in allocation.results:
            if not one.admin_access:
                self._keys.setdefault(one.id, {})[key] = None

    def remove(self, key: str, allocation: Allocation) -> None:
        """A claim is deallocated, or gone."""
        for one in allocation.results:
            keys = self._keys.get(one.id, {})
            keys.pop(key, None)
            if not keys:
                self._keys.pop(one.id, None)
