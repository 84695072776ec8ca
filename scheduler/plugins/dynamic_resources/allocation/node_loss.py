"""What a node loses by an allocation, to compare nodes with each other: less is better."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.device import Device
from scheduler.model.dra.resource_slice import PoolId
from scheduler.model.mig.layout_cost import cost
from scheduler.state.dra.in_use import DevicesInUse
from scheduler.state.dra.pool import Pool

#: The loss by a device that was not shared before.
NEW_SHARE: Final = 1.0
#: The loss for each device of the same pools that stays free: the fullest node comes first.
STAYS_FREE: Final = 0.001


def node_loss(
    pools: Sequence[Pool], allocations: Sequence[Allocation], in_use: DevicesInUse
) -> float:
    """The loss of all allocations on one node."""
    by_id = {pool.id: pool for pool in pools}
    given: dict[int, tuple[Pool, list[Device]]] = {}
    for allocation in allocations:
        for result in allocation.results:
            pool = by_id[PoolId(result.driver, result.pool)]
            if not result.admin_access:
                given.setdefault(id(pool), (pool, []))[1].append(pool.by_name[result.device])
    return sum(_of_pool(pool, devices, in_use) for pool, devices in given.values())


def _of_pool(pool: Pool, devices: Sequence[Device], in_use: DevicesInUse) -> float:
    used = in_use.of_pool(pool.id)
    loss = sum(NEW_SHARE for one in devices if one.allow_multiple and not in_use.is_shared(one.id))
    sets = dict.fromkeys(use.counter_set for one in devices for use in one.consumes[:1])
    names = [*used, *(one.name for one in devices)]
    loss += sum(_of_card(pool, name, used, names) for name in sets)
    left = len(pool.by_name) - len(set(names))
    return loss + STAYS_FREE * left


def _of_card(
    pool: Pool, counter_set: str, before: Collection[str], after: Collection[str]
) -> float:
    """The rise of a MIG card's layout cost; of other cards, whether it was empty."""
    card = pool.mig_cards.get(counter_set)
    if card is not None:
        now, then = card.layout(before), card.layout(after)
        return cost(card.gpu_model, then) - cost(card.gpu_model, now)
    return 0.0 if any(_uses(pool.by_name.get(name), counter_set) for name in before) else 1.0


def _uses(device: Device | None, counter_set: str) -> bool:
    return device is not None and any(use.counter_set == counter_set for use in device.consumes)
