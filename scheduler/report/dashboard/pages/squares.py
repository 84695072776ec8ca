"""The GPUs and slices of one node, one by one, with their holders, as far as the books know them.

Where the scheduler knows the place of a device, it is drawn there; where the kubelet chooses, only
the counts are true, and the devices of one holder stand side by side. A device is never drawn as
free that the sums of the node do not count as free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from scheduler.model.mig import layout as mig_layout
from scheduler.model.node import Node
from scheduler.state.capacity.node_devices import (
    DRAWN_MAX,
    GPU,
    SHARED,
    DeviceAmount,
    NodeDevices,
    gpu_indexes,
    is_slice,
    slice_size,
)
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus, canonical
from scheduler.state.node_info import NodeInfo

SLICES_MAX: Final = 128

State = Literal["held", "partial", "free", "failed", "unavailable", "unknown", "idle"]


class Slice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A MIG instance; ``start`` and ``size`` are memory slices of its GPU, where it is known.

    ``holder`` is an index into the holders of the node.
    """

    profile: str
    state: State
    start: int | None = None
    size: int | None = None
    holder: int | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A physical GPU; its slices are absent where their places are not known."""

    index: int
    state: State
    holders: tuple[int, ...]
    slices: tuple[Slice, ...] | None = None
    slice_count: int | None = None


Squares = tuple[tuple[Gpu, ...], tuple[Slice, ...]]


def squares_of(node_info: NodeInfo, one: NodeDevices) -> Squares:
    """The GPUs of a node, and its slices of unknown place; none of them where they are too many."""
    node = node_info.node
    assert node is not None, "a node that only its pods name has no devices"
    holders = {(held.namespace, held.pod): at for at, held in enumerate(one.holders)}
    if (gpus := node_info.gpus) is not None:
        return _of_dynamic_mig(node_info, node, gpus, holders, is_usable=not one.problem), ()
    slices = tuple(_of_slices(one))
    if one.is_numbered:
        return _of_indexes(node_info, node, holders, is_usable=not one.problem), slices
    return _of_counts(one), slices


# --- known places ------------------------------------------------------------------------------


def _of_indexes(
    node_info: NodeInfo, node: Node, holders: Mapping[tuple[str, str], int], *, is_usable: bool
) -> tuple[Gpu, ...]:
    """GPUs that the scheduler gives by index."""
    held = _by_index(node_info, holders)
    return tuple(
        Gpu(
            index=index,
            state="held"
            if index in held
            else "failed"
            if index in node.failed_gpus
            else _free(is_usable),
            holders=tuple(held.get(index, ())),
        )
        for index in gpu_indexes(node_info)[:DRAWN_MAX]
    )


def _by_index(node_info: NodeInfo, holders: Mapping[tuple[str, str], int]) -> dict[int, list[int]]:
    """The holders of each GPU that is held as a whole."""
    found: dict[int, list[int]] = {}
    for pod, allocation in node_info.pods.values():
        for number in allocation.numbers:
            at = holders.get((pod.namespace, pod.name))
            found.setdefault(number, []).extend(() if at is None else (at,))
    return found


def _of_dynamic_mig(
    node_info: NodeInfo,
    node: Node,
    gpus: DynamicGpus,
    holders: Mapping[tuple[str, str], int],
    *,
    is_usable: bool,
) -> tuple[Gpu, ...]:
    """GPUs on which instances are created on request."""
    if len(gpus.held) > DRAWN_MAX:
        return ()
    whole = _by_index(node_info, holders)
    owners = {
        (place.gpu, canonical(place.profile), place.start): holders.get((pod.namespace, pod.name))
        for pod, allocation in node_info.pods.values()
        for place in allocation.mig_placements
    }
    found: list[Gpu] = []
    for index, layout in enumerate(gpus.held):
        if layout == BLOCKED:
            state = _blocked(node_info, node, index, is_held=index in whole)
            found.append(Gpu(index=index, state=state, holders=tuple(whole.get(index, ()))))
            continue
        slices = _instances(gpus, index, owners)
        named = (one.holder for one in slices if one.holder is not None)
        found.append(
            Gpu(
                index=index,
                state="partial" if layout else _free(is_usable),
                holders=tuple(dict.fromkeys(named)),
                slices=slices,
                slice_count=gpus.gpu_model.memory_slices,
            )
        )
    return tuple(found)


def _blocked(node_info: NodeInfo, node: Node, index: int, *, is_held: bool) -> State:
    if is_held:
        return "held"
    if index in node.failed_gpus:
        return "failed"
    return "unavailable" if index in node_info.gpus_in_backoff else "unknown"


def _instances(
    gpus: DynamicGpus, index: int, owners: Mapping[tuple[int, str, int], int | None]
) -> tuple[Slice, ...]:
    """The instances of one GPU, held and idle, by their start."""
    found = [
        Slice(
            profile=_shown(name),
            start=start,
            size=_size(gpus, name),
            state="held",
            holder=owners.get((index, name, start)),
        )
        for name, start in gpus.held[index]
    ]
    found += [
        Slice(profile=_shown(name), start=start, size=_size(gpus, name), state="idle")
        for name, start in gpus.idle[index]
    ]
    return tuple(sorted(found, key=lambda one: (one.start or 0, one.profile)))


def _size(gpus: DynamicGpus, name: str) -> int | None:
    profile = mig_layout.profile_of(gpus.gpu_model, name)
    return None if profile is None else profile.size


def _shown(name: str) -> str:
    """The unit of a profile, as the sums have it."""
    return name.replace("+", ".")


def _free(is_usable: bool) -> State:
    return "free" if is_usable else "unavailable"


# --- counts --------------------------------------------------------------------------------------


def _of_counts(one: NodeDevices) -> tuple[Gpu, ...]:
    """GPUs that the kubelet or a driver gives."""
    amount = one.devices.get(GPU, DeviceAmount())
    if amount.total > DRAWN_MAX:
        return ()
    return tuple(
        Gpu(index=index, state=state, holders=() if holder is None else (holder,))
        for index, (state, holder) in enumerate(_counted(one, GPU, amount))
    )


def _of_slices(one: NodeDevices) -> Iterator[Slice]:
    """Instances and shared GPUs of unknown place, the largest first."""
    amounts = {
        unit: amount for unit, amount in one.devices.items() if unit == SHARED or is_slice(unit)
    }
    if sum(amount.total for amount in amounts.values()) > SLICES_MAX:
        return
    for unit in sorted(amounts, key=slice_size, reverse=True):
        for state, holder in _counted(one, unit, amounts[unit]):
            yield Slice(profile=unit, state=state, holder=holder)


def _counted(
    one: NodeDevices, unit: str, amount: DeviceAmount
) -> Iterator[tuple[State, int | None]]:
    """The devices of a unit: those that are held, free, and failed, and the rest."""
    owners = _owners(one, unit)
    held, free = min(amount.held, amount.total), min(amount.free, amount.total)
    left = max(0, amount.total - held)
    for _ in range(held):
        yield "held", next(owners, None)
    for _ in range(min(free, left)):
        yield "free", None
    left -= min(free, left)
    failed = min(amount.failed, left)
    for _ in range(left - failed):
        yield ("unavailable" if one.problem else "unknown"), None
    for _ in range(failed):
        yield "failed", None


def _owners(one: NodeDevices, unit: str) -> Iterator[int]:
    return (at for at, holder in enumerate(one.holders) for _ in range(holder.devices.get(unit, 0)))
