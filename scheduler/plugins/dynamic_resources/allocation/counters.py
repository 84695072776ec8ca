"""Shared counters of pools, with the devices that a search has taken so far.

Mirrors ``checkAvailableCounters`` and ``checkAndConsumeCompatibilityGroups`` of kube-scheduler's
structured allocator.
"""

from __future__ import annotations

from scheduler.model.dra.device import CounterUse, Device
from scheduler.state.dra.in_use import DevicesInUse
from scheduler.state.dra.pool import Counters, Pool

#: The groups that all devices of a counter set have in common; None where none of them has any.
Groups = frozenset[str] | None


class PoolCounters:
    """One pool's counters: what is left, and the groups of the devices that share a set."""

    __slots__ = ("_groups", "_has_groups", "_is_overdrawn", "_left")

    def __init__(self, pool: Pool, in_use: DevicesInUse) -> None:
        self._left: Counters = dict(in_use.free_counters(pool))
        self._is_overdrawn = any(value < 0 for value in self._left.values())
        self._has_groups = pool.has_groups
        self._groups: dict[str, list[Groups]] = {}
        if self._has_groups:
            used = in_use.of_pool(pool.id)
            for name, device in pool.by_name.items():
                if name in used:
                    self._join(device)

    def take(self, device: Device) -> bool:
        """Take what a device consumes; False, with nothing taken, if it is not left."""
        if self._is_overdrawn or not all(map(self._can_join, device.consumes)):
            return False
        if not self._take_counters(device):
            return False
        if self._has_groups:
            self._join(device)
        return True

    def give_back(self, device: Device) -> None:
        """Give back what a device took; devices are given back in reverse order."""
        self._give_counters(device)
        if self._has_groups:
            for use in device.consumes:
                self._groups[use.counter_set].pop()

    def _take_counters(self, device: Device) -> bool:
        left, is_enough = self._left, True
        for use in device.consumes:
            for counter, value in use.counters.items():
                left[use.counter_set, counter] -= value
                is_enough = is_enough and left[use.counter_set, counter] >= 0
        if not is_enough:
            self._give_counters(device)
        return is_enough

    def _give_counters(self, device: Device) -> None:
        for use in device.consumes:
            for counter, value in use.counters.items():
                self._left[use.counter_set, counter] += value

    def _can_join(self, use: CounterUse) -> bool:
        """A device without groups shares a set only with devices without groups."""
        known = self._groups.get(use.counter_set)
        if not known:
            return True
        if not use.groups or known[-1] is None:
            return not use.groups and known[-1] is None
        return not known[-1].isdisjoint(use.groups)

    def _join(self, device: Device) -> None:
        for use in device.consumes:
            known = self._groups.setdefault(use.counter_set, [])
            groups = frozenset(use.groups) if use.groups else None
            if known:
                last = known[-1]
                groups = last if last is None or groups is None else last & groups
            known.append(groups)
