"""The index of each GPU among the DRA devices of a node, as ``gpu-scheduling-map`` names it.

NVIDIA's driver publishes no index. nvidia-smi numbers the cards by PCI bus id, so a card's index is
its place in the order of ``resource.kubernetes.io/pciBusID``; where one lacks it, the minor in its
device's name. A card that is offered in partitions only has an index and no whole device::

    gpu-0                    0000:47:00.0  index 1 (minor 0)
    gpu-1-mig-1g10gb-19-0    0000:07:00.0  index 0, no whole GPU

Devices of another driver have an index by an attribute that the configuration names: a number is
the index itself, texts are ordered (shorter ones first).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from scheduler.model import well_known
from scheduler.model.cached import cached
from scheduler.model.dra.device import AttributeValue, Device, DeviceId
from scheduler.model.limits import NODE_GPUS_MAX

NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
_TYPE: Final = well_known.DRA_DRIVER + "/type"
_WHOLE, _PARTITION = "gpu", "mig"
#: NVIDIA's names of a whole GPU and of a MIG partition, both with the minor of the card.
_NAME: Final = re.compile(r"gpu-(0|[1-9][0-9]{0,3})(-mig-.*)?")

#: An index, or a text that is to be ordered; None for a card without a whole device.
_Card = tuple[int | str, Device | None]
Place = TypeVar("Place", int, tuple[int, str])


class _Part(NamedTuple):
    """A whole GPU or a MIG partition, with the minor and the PCI bus id of its card."""

    device: Device
    minor: int
    is_whole: bool
    bus: str


class GpuIndexes(msgspec.Struct, frozen=True, dict=True):
    """The GPUs of a node by index; None for a card that is offered in MIG partitions only.

    ``problem`` says why the indexes are unknown: then there are none. ``places`` are the NUMA node
    and the PCIe root of whole GPUs, where these are published.
    """

    devices: dict[int, DeviceId | None] = {}
    problem: str = ""
    places: dict[int, tuple[AttributeValue | None, ...]] = {}

    @cached
    def whole(self) -> frozenset[DeviceId]:
        """The whole GPUs."""
        return frozenset(one for one in self.devices.values() if one is not None)


def is_indexed(driver: str, attributes: Mapping[str, str]) -> bool:
    """Whether devices of a driver can have indexes; ``attributes`` are those of other drivers."""
    return driver == well_known.DRA_DRIVER or driver in attributes


def gpu_indexes(devices: Iterable[Device], attributes: Mapping[str, str]) -> GpuIndexes | None:
    """The indexes of a node's devices; None if none of them is a GPU."""
    by_driver: dict[str, list[Device]] = {}
    for device in devices:
        if is_indexed(device.driver, attributes):
            by_driver.setdefault(device.driver, []).append(device)
    cards = {driver: _cards(driver, some, attributes) for driver, some in by_driver.items()}
    cards = {driver: found for driver, found in cards.items() if found != []}
    if not cards:
        return None
    if len(cards) > 1:
        return GpuIndexes(problem=f"drivers {' and '.join(sorted(cards))} both publish GPUs")
    [(driver, found)] = cards.items()
    return GpuIndexes(problem=f"{driver}: {found}") if isinstance(found, str) else _numbered(found)


def _cards(driver: str, devices: list[Device], attributes: Mapping[str, str]) -> list[_Card] | str:
    """The cards of one driver with their places, or why these are unknown."""
    name = attributes.get(driver)
    if name is not None:
        return _by_attribute(devices, name if "/" in name else f"{driver}/{name}")
    parts = [found for device in devices if (found := _part_of(device)) is not None]
    if len(parts) < sum(map(_is_gpu, devices)):
        named = {one.device.name for one in parts}
        other = next(one for one in devices if _is_gpu(one) and one.name not in named)
        return f"device {other.name} has no minor in its name"
    return _by_bus(parts) if all(one.bus for one in parts) else _by_minor(parts)


def _by_minor(parts: list[_Part]) -> list[_Card] | str:
    cards = _merged(parts, [one.minor for one in parts])
    return cards if isinstance(cards, str) else [(minor, one) for minor, _, one in cards]


def _by_bus(parts: list[_Part]) -> list[_Card] | str:
    """In the order of PCI bus ids.

    A card without any device (lost, or in MIG mode without instances) has an index all the same,
    which follows where the minors have the same order.
    """
    cards = _merged(parts, [_order(one.bus) for one in parts])
    if isinstance(cards, str):
        return cards
    cards.sort()
    minors = [minor for _, minor, _ in cards]
    if minors == sorted(minors):
        return [(minor, one) for _, minor, one in cards]
    if len(minors) <= max(minors):
        return "a card has no device, and the minors are not in the order of the PCI bus ids"
    return [(index, one) for index, (_, _, one) in enumerate(cards)]


def _merged(
    parts: list[_Part], places: list[Place]
) -> list[tuple[Place, int, Device | None]] | str:
    """One card for all devices at one place, with its minor."""
    cards: dict[Place, _Part] = {}
    for part, place in zip(parts, places, strict=True):
        known = cards.get(place)
        if known is not None and (known.minor != part.minor or (known.is_whole and part.is_whole)):
            return f"devices {known.device.name} and {part.device.name} are one GPU by their place"
        if known is None or part.is_whole:
            cards[place] = part
    return [
        (place, one.minor, one.device if one.is_whole else None) for place, one in cards.items()
    ]


def _by_attribute(devices: list[Device], name: str) -> list[_Card] | str:
    found: list[_Card] = []
    places: set[int | str] = set()
    for device in devices:
        value: AttributeValue | None = device.attribute(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | str):
            return f"attribute {name} of device {device.name} is neither a number nor a text"
        if value in places:
            return f"device {device.name} has the {name} of another one ({value})"
        places.add(value)
        found.append((value, device))
    return found


def _numbered(cards: list[_Card]) -> GpuIndexes:
    if any(isinstance(place, str) for place, _ in cards):
        if not all(isinstance(place, str) for place, _ in cards):
            return GpuIndexes(problem="the devices are numbered by numbers and by texts")
        ordered = sorted(cards, key=lambda card: _order(str(card[0])))
        cards = [(index, device) for index, (_, device) in enumerate(ordered)]
    if not all(0 <= int(place) < NODE_GPUS_MAX for place, _ in cards):
        return GpuIndexes(problem=f"a GPU has an index that is not from 0 to {NODE_GPUS_MAX - 1}")
    cards = sorted(cards, key=lambda card: int(card[0]))
    places = {int(index): _place(device) for index, device in cards if device is not None}
    return GpuIndexes(
        {int(place): device.id if device else None for place, device in cards},
        places={index: place for index, place in places.items() if place != (None, None)},
    )


def _place(device: Device) -> tuple[AttributeValue | None, ...]:
    return (device.attribute(NUMA_NODE), device.attribute(PCIE_ROOT))


def _part_of(device: Device) -> _Part | None:
    """A device of NVIDIA's driver as a card or a part of one; None if it is neither."""
    found = _NAME.fullmatch(device.name)
    kind = device.attribute(_TYPE)
    if found is None or kind not in (None, _WHOLE, _PARTITION):
        return None
    is_whole = found[2] is None if kind is None else kind == _WHOLE
    bus = device.attribute(PCI_BUS_ID)
    return _Part(device, int(found[1]), is_whole, bus if isinstance(bus, str) else "")


def _is_gpu(device: Device) -> bool:
    return device.attribute(_TYPE) in (_WHOLE, _PARTITION)


def _order(text: str) -> tuple[int, str]:
    """The order of texts: PCI bus ids as nvidia-smi orders cards, longer ones have a domain of more
    digits.
    """
    return len(text), text.lower()
