"""The GPU memory that a pod needs: as a floor for its tiers, or as the request itself.

    gpu-scheduler.io/memory-floor: 16Gi                 a tier with less is never used
    gpu-scheduler.io/gpu-memory: 16Gi                   one GPU or MIG instance with this memory,
                                                        for the default container (injected)
    gpu-scheduler.io/gpu-memory: app=16Gi,helper=5Gi    the same for several containers

The name of a profile has nominal gigabytes. The real memory is a little less, for instances as for
whole GPUs (a ``1g.6gb`` has 5,836 MiB, an H100 80GB 81,559), and a request for 80Gi means that GPU.
So a GPU with ``SHARE`` per cent of the requested amount is sufficient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.model import limits, quantity, well_known
from scheduler.model.mig.profile import nominal_mib

#: Per cent of the nominal gigabytes that the smallest known instance really has, rounded down.
SHARE: Final = 94
LEAST: Final = 1 << 20
_MIB: Final = 1 << 20
_SHOWN_MAX: Final = 40


class GpuMemoryError(ValueError):
    """An invalid amount; the text has its place and the expected form."""


def floor_of(annotations: Mapping[str, str]) -> int:
    """The minimum bytes of every tier; 0 without a floor."""
    text = annotations.get(well_known.MEMORY_FLOOR)
    return 0 if text is None else _bytes(text, well_known.MEMORY_FLOOR)


def wanted_of(annotations: Mapping[str, str], containers: list[str]) -> dict[str, int]:
    """Container -> requested bytes of GPU memory; empty without the annotation.

    ``containers`` are the pod's, the default one first.
    """
    text = annotations.get(well_known.WANTED_MEMORY)
    if text is None:
        return {}
    if len(text) > limits.MEMORY_LENGTH_MAX:
        raise GpuMemoryError(
            f"{well_known.WANTED_MEMORY}: has {len(text)} characters; at most"
            f" {limits.MEMORY_LENGTH_MAX} are read"
        )
    wanted: dict[str, int] = {}
    for part in text.split(","):
        name, equals, amount = part.rpartition("=")
        container = name.strip() if equals else containers[0]
        if container not in containers:
            raise GpuMemoryError(
                f"{well_known.WANTED_MEMORY}: the pod has no container {container[:_SHOWN_MAX]!r},"
                f" only {', '.join(containers)[: 3 * _SHOWN_MAX]}"
            )
        if container in wanted:
            raise GpuMemoryError(
                f"{well_known.WANTED_MEMORY}: container {container[:_SHOWN_MAX]!r} is named twice"
            )
        wanted[container] = _bytes(amount, well_known.WANTED_MEMORY)
    return wanted


def by_resource(
    annotations: Mapping[str, str], devices: Iterable[tuple[str, Mapping[str, int]]]
) -> dict[str, int]:
    """GPU resource -> minimum bytes of one device, for a pod that requests GPU memory.

    ``devices`` are the pod's containers with their requests. An invalid amount is ignored here: the
    admission rejects it (``wanted_of``).
    """
    text = annotations.get(well_known.WANTED_MEMORY)
    if text is None or len(text) > limits.MEMORY_LENGTH_MAX:
        return {}
    amounts: dict[str, int] = {}
    for part in text.split(","):
        name, _, amount = part.rpartition("=")
        try:
            amounts[name.strip()] = _bytes(amount, well_known.WANTED_MEMORY)
        except GpuMemoryError:
            return {}
    found: dict[str, int] = {}
    for container, requested in devices:
        amount_of_one = amounts.get(container, amounts.get("", 0))
        for resource in requested:
            found[resource] = max(found.get(resource, 0), amount_of_one)
    return {resource: amount for resource, amount in found.items() if amount}


def of_a_share(resource: str, card_mib: int, shares: int) -> int:
    """The MiB of one of ``shares`` equal parts of a MIG instance, or of a GPU with ``card_mib``."""
    whole_mib = nominal_mib(resource) if well_known.is_mig(resource) else card_mib
    return whole_mib // shares


def names_all(annotations: Mapping[str, str]) -> bool:
    """Whether each amount of GPU memory names its container."""
    text = annotations.get(well_known.WANTED_MEMORY, "")
    return all("=" in part for part in text.split(","))


def has(resource: str, floor: int) -> bool:
    """Whether a MIG profile has this number of bytes by its name."""
    return nominal_mib(resource) * _MIB >= floor


def least_mib(floor: int) -> int:
    """The minimum MiB of a whole GPU that counts as having this number of bytes.

    >>> least_mib(80 << 30)
    77005
    """
    return -(-floor * SHARE // (100 * _MIB))


def in_gib(mib: int) -> str:
    """The MiB of a GPU in the unit of most requests.

    >>> in_gib(15360), in_gib(81559)
    ('15Gi', '79.6Gi')
    """
    return f"{mib / 1024:.1f}Gi" if mib % 1024 else f"{mib // 1024}Gi"


def in_both_units(mib: int) -> str:
    """The same with the exact number, which is the one in the node's label.

    >>> in_both_units(81559)
    '79.6Gi (81559 MiB)'
    """
    return f"{in_gib(mib)} ({mib} MiB)"


def _bytes(text: str, key: str) -> int:
    stripped = text.strip()
    try:
        amount = quantity.value(stripped)
    except quantity.QuantityError:
        shown = repr(text[:_SHOWN_MAX])
        raise GpuMemoryError(f"{key}: {shown} is not an amount of memory such as 16Gi") from None
    if amount < LEAST:
        raise GpuMemoryError(
            f"{key}: {stripped[:_SHOWN_MAX]} is {amount} bytes, which every GPU has;"
            " write for example 16Gi"
        )
    return amount
