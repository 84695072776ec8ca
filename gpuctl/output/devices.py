"""Words for devices, boards and quotas, shared by ``top`` and ``free``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gpuctl.device_words import counted as counted
from scheduler.model.gpu.board_name import board as board
from scheduler.state.capacity.node_devices import GPU, DeviceAmount, is_slice, slice_size
from scheduler.state.capacity.summary import QuotaUse

NOTHING: Final = "-"


def order(unit: str) -> tuple[object, ...]:
    """GPUs, then slices from the largest, then what other drivers have."""
    if unit == GPU:
        return (0, 0, 0, unit)
    if is_slice(unit):
        compute, memory = slice_size(unit)
        return (2, -compute, -memory, unit)
    return (1 if unit.startswith(GPU) else 3, 0, 0, unit)


def listed(amounts: Mapping[str, int], *, without_gpus: bool = False) -> str:
    """Amounts as text: ``2 x 3g.40gb, 1 x 1g.10gb``; a whole GPU has only its number.

    >>> listed({"gpu": 4, "1g.10gb": 2}), listed({})
    ('4, 2 x 1g.10gb', '-')
    """
    units = sorted((unit for unit, count in amounts.items() if count), key=order)
    shown = [
        str(amounts[unit]) if unit == GPU else f"{amounts[unit]} x {unit}"
        for unit in units
        if not (without_gpus and unit == GPU)
    ]
    return ", ".join(shown) or NOTHING


def quotas(uses: Iterable[QuotaUse]) -> str:
    """Used of allowed, as text: ``128/128``, ``3/4 1g.10gb``."""
    shown = [
        f"{use.used}/{use.hard}" + ("" if use.device == GPU else f" {use.device}") for use in uses
    ]
    return ", ".join(shown) or NOTHING


def sums(devices: Iterable[Mapping[str, DeviceAmount]]) -> tuple[DeviceAmount, DeviceAmount]:
    """Whole GPUs (shares of them too), and slices.

    Of slices only those that are held add up: the free ones may exclude each other.
    """
    gpus = slices = DeviceAmount()
    for amounts in devices:
        for unit, amount in amounts.items():
            if is_slice(unit):
                slices = slices.plus(amount)
            else:
                gpus = gpus.plus(amount)
    return gpus, slices
