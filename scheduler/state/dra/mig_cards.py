"""GPUs whose MIG partitions are devices with shared counters, as NVIDIA's DRA driver has them.

The counters ``memory-slice-N`` of a partition say where it is on its card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scheduler.model.dra.amount import ONE
from scheduler.model.dra.device import Device
from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost import cost
from scheduler.model.mig.profile import GpuModel, profile_of

PRODUCT: Final = "productName"
PROFILE: Final = "profile"
_MEMORY: Final = "memory"
_SLICE: Final = "memory-slice-"
_MIB: Final = 2**20 * ONE
#: Digits that count of a rise.
DIGITS: Final = 6


class MigCard(msgspec.Struct, frozen=True):
    """One card: its board, and the place of each of its devices."""

    gpu_model: GpuModel
    slots: dict[str, mig_layout.Slot]

    def layout(self, in_use: Iterable[str]) -> mig_layout.Layout:
        """The layout with these devices; those of other cards do not count."""
        slots = self.slots
        return mig_layout.layout_of([slots[name] for name in in_use if name in slots])

    def rise(self, now: mig_layout.Layout, name: str) -> float | None:
        """The rise of the layout cost by one more device; None where it does not fit."""
        after = mig_layout.with_slot(now, *self.slots[name])
        if not mig_layout.is_legal(self.gpu_model, after):
            return None
        return round(cost(self.gpu_model, after) - cost(self.gpu_model, now), DIGITS)


def mig_cards(
    devices: Iterable[Device], counters: Mapping[tuple[str, str], int]
) -> Mapping[str, MigCard]:
    """The cards of a pool by their counter set, where every device of it is a known partition."""
    by_set: dict[str, list[Device]] = {}
    for device in devices:
        for use in device.consumes:
            by_set.setdefault(use.counter_set, []).append(device)
    found = {}
    for name, some in by_set.items():
        card = _card(some, counters.get((name, _MEMORY), 0) // _MIB)
        if card is not None:
            found[name] = card
    return found


def _card(devices: Iterable[Device], memory_mib: int) -> MigCard | None:
    gpu_model: GpuModel | None = None
    slots: dict[str, mig_layout.Slot] = {}
    for device in devices:
        product = device.attribute(f"{device.driver}/{PRODUCT}")
        if gpu_model is None and isinstance(product, str):
            gpu_model = mig_layout.gpu_model_of(product, memory_mib)
        slot = _slot(gpu_model, device) if gpu_model is not None else None
        if slot is None:
            return None
        slots[device.name] = slot
    return None if gpu_model is None else MigCard(gpu_model, slots)


def _slot(gpu_model: GpuModel, device: Device) -> mig_layout.Slot | None:
    """The profile of a partition and the first memory slice that it takes."""
    taken = [
        int(name.removeprefix(_SLICE))
        for use in device.consumes
        for name, value in use.counters.items()
        if value and name.startswith(_SLICE) and name.removeprefix(_SLICE).isdecimal()
    ]
    if not taken:
        return None
    name = device.attribute(f"{device.driver}/{PROFILE}")
    profile = profile_of(gpu_model, name) if isinstance(name, str) else gpu_model.whole
    return None if profile is None else (profile.name, min(taken))
