"""Words for devices, boards and quotas, shared by ``top`` and ``free``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.state.capacity.node_devices import GPU, DeviceAmount, is_slice, slice_size
from scheduler.state.capacity.summary import QuotaUse

NOTHING: Final = "-"
_VENDORS: Final = frozenset(("nvidia", "tesla", "geforce", "quadro", "graphics"))
#: Lines of boards whose number alone is ambiguous.
_LINES: Final = frozenset(("rtx", "gtx", "dgx"))
_GIGABYTES: Final = re.compile(r"(\d+)GB")


def board(product: str, memory_mib: int) -> str:
    """The short name of a board, with the memory of one in GiB.

    >>> board("NVIDIA-H100-80GB-HBM3", 81559), board("NVIDIA-A100-SXM4-40GB", 0)
    ('H100 80G', 'A100 40G')
    >>> board("NVIDIA-RTX-6000-Ada-Generation", 49140), board("unknown", 0)
    ('RTX 6000 48G', 'unknown')
    """
    words = [word for word in re.split(r"[-_ ]+", product) if word.lower() not in _VENDORS]
    if not words:
        return product
    name = words[0]
    if name.lower() in _LINES and len(words) > 1:
        name = f"{name} {words[1]}"
    if memory_mib:
        return f"{name} {round(memory_mib / 1024)}G"
    found = _GIGABYTES.search(product)
    return f"{name} {found[1]}G" if found and "-MIG-" not in product else name


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


def counted(count: int, word: str) -> str:
    """A number and its word in the plural where it needs one.

    >>> counted(1, "pod"), counted(2, "GPU")
    ('1 pod', '2 GPUs')
    """
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
