"""The order in which best fit tries devices: the least loss first.

A share of a device that is shared already costs least. A partition costs what it takes of the room
of its card: for a MIG profile the rise of the layout cost (``model/mig/layout_cost``), for others
the part of the counters, on the fullest card first. Whole devices come from the NUMA node and PCIe
root with the fewest free devices that are enough, where the slice publishes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from scheduler.model.dra.device import AttributeValue, Device
from scheduler.model.dra.gpu_indexes import NUMA_NODE, PCIE_ROOT
from scheduler.model.mig.layout import Layout
from scheduler.plugins.dynamic_resources.allocation.requests import (
    Alternative,
    Candidate,
    SelectorFailure,
)
from scheduler.plugins.dynamic_resources.allocation.results import Chosen
from scheduler.state.dra.in_use import DevicesInUse
from scheduler.state.dra.mig_cards import MigCard
from scheduler.state.dra.pool import Counters, Pool

#: The card of a MIG instance that exists already.
PARENT: Final = "parentUUID"
#: Digits that count of a loss: sums of equal parts must be equal in any order.
DIGITS: Final = 6

#: Smaller is better; devices with equal losses are tried in kube-scheduler's order.
Loss = tuple[float, ...]
_SHARE, _PARTITION, _WHOLE = 0.0, 1.0, 2.0
_Place = tuple[AttributeValue | None, ...]


def best_fit(
    in_use: DevicesInUse,
) -> Callable[[Alternative, Sequence[Candidate], Sequence[Chosen]], Sequence[Candidate]]:
    """The order for a state of allocations."""

    def order(
        asked: Alternative, candidates: Sequence[Candidate], taken: Sequence[Chosen]
    ) -> Sequence[Candidate]:
        if asked.exact.admin_access:
            return candidates  # nothing is taken
        return _ordered(asked, candidates, taken, in_use)

    return order


def _ordered(
    asked: Alternative,
    candidates: Sequence[Candidate],
    taken: Sequence[Chosen],
    in_use: DevicesInUse,
) -> Sequence[Candidate]:
    mine = {one.candidate.id for one in taken}
    matching: list[Candidate] = []
    failing: list[Candidate] = []
    for candidate in candidates:
        device = candidate.device
        if not device.allow_multiple and (in_use.is_whole(device.id) or device.id in mine):
            continue
        selects = asked.selects(candidate)
        if isinstance(selects, SelectorFailure):
            failing.append(candidate)  # it is reported only where no other device will do
        elif selects:
            matching.append(candidate)
    if len(matching) > 1:
        losses = _Losses(asked.count, matching, taken, in_use)
        matching.sort(key=losses.of)
    return matching + failing


class _Losses:
    """The losses of the candidates of one request."""

    def __init__(
        self,
        count: int,
        candidates: Sequence[Candidate],
        taken: Sequence[Chosen],
        in_use: DevicesInUse,
    ) -> None:
        self._count = count
        self._taken = taken
        self._in_use = in_use
        whole = [one.device for one in candidates if _kind(one.device) == _WHOLE]
        self._by_numa = Counter(map(_numa, whole))
        self._by_root = Counter(map(_root, whole))
        #: The smallest places are tried first, and of equal ones the first of the slice.
        self._rank = {place: at for at, place in enumerate(dict.fromkeys(map(_root, whole)))}
        self._layouts: dict[tuple[int, str], Layout] = {}
        self._left: dict[int, Counters] = {}

    def of(self, candidate: Candidate) -> Loss:
        """The loss of one candidate."""
        device = candidate.device
        kind = _kind(device)
        if kind == _SHARE:
            return (_SHARE, *self._of_share(device))
        if kind == _PARTITION:
            return (_PARTITION, *self._of_partition(candidate))
        numa, root = _numa(device), _root(device)
        return (
            _WHOLE,
            *self._of_group(self._by_numa[numa]),
            *self._of_group(self._by_root[root]),
            self._rank[root],
        )

    def _of_group(self, free: int) -> Loss:
        """The fewest free devices that are enough; else as many as there are."""
        return (0.0, free) if free >= self._count else (1.0, -free)

    def _of_share(self, device: Device) -> Loss:
        """Devices with shares first, the fullest of them first."""
        mine = [one for one in self._taken if one.candidate.id == device.id]
        is_new = not mine and not self._in_use.is_shared(device.id)
        others = self._in_use.consumed(device.id)
        left = 0.0
        for name, capacity in device.capacities.items():
            used = others.get(name, 0) + sum(one.consumed.get(name, 0) for one in mine)
            left += (capacity.value - used) / capacity.value if capacity.value else 0.0
        return (float(is_new), round(left, DIGITS))

    def _of_partition(self, candidate: Candidate) -> Loss:
        device, pool = candidate.device, candidate.pool
        counter_set = device.consumes[0].counter_set
        card = pool.mig_cards.get(counter_set)
        if card is not None:
            rise = card.rise(self._layout(pool, counter_set, card), device.name)
            if rise is not None:
                return (0.0, rise, -card.slots[device.name][1])  # as the driver: the higher start
        size = room = 0.0
        left = self._left_of(pool)
        for use in device.consumes:
            for name, value in use.counters.items():
                key = (use.counter_set, name)
                if pool.counters[key]:
                    size += value / pool.counters[key]
                    room += left[key] / pool.counters[key]
        return (1.0, round(size, DIGITS), round(room, DIGITS))

    def _layout(self, pool: Pool, counter_set: str, card: MigCard) -> Layout:
        key = (id(pool), counter_set)
        found = self._layouts.get(key)
        if found is None:
            found = self._layouts[key] = card.layout(self._names_in_use(pool))
        return found

    def _left_of(self, pool: Pool) -> Counters:
        """The counters that are left beside what the search has taken."""
        known = self._left.get(id(pool))
        if known is None:
            known = self._left[id(pool)] = dict(self._in_use.free_counters(pool))
            for one in self._taken:
                if one.candidate.pool is pool and one.has_counters:
                    for use in one.candidate.device.consumes:
                        for name, value in use.counters.items():
                            known[use.counter_set, name] -= value
        return known

    def _names_in_use(self, pool: Pool) -> Iterable[str]:
        mine = (one.candidate.device.name for one in self._taken if one.candidate.pool is pool)
        return dict.fromkeys((*self._in_use.of_pool(pool.id), *mine))


def _kind(device: Device) -> float:
    if device.allow_multiple:
        return _SHARE
    return _PARTITION if device.consumes else _WHOLE


def _numa(device: Device) -> _Place:
    return (device.driver, device.attribute(NUMA_NODE))


def _root(device: Device) -> _Place:
    card = device.attributes.get(PARENT)
    return (*_numa(device), device.attribute(PCIE_ROOT), card)
