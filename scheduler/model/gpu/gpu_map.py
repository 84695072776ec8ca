"""The annotation ``gpu-scheduling-map``: which node and devices each pod index gets.

    0=node1:0,1        pod index 0 -> node (or alias) node1, devices 0 and 1, in this order
    1=node2:2

The webhook and the scheduler read maps through this one module (and a pod's index through
``model/pods/pod_index``), so the environment chosen at admission is the devices chosen at bind.
A map is good as a whole or refused with the line that is wrong: a lenient reader would give a pod
fewer or other devices than its author meant. Only ASCII counts as a digit, and only LF ends a line;
Python's ``int``, ``isdigit`` and ``splitlines`` accept more and never see unchecked text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.limits import (
    MAP_DEVICE_MAX,
    MAP_INDEX_MAX,
    MAP_LENGTH_MAX,
    MAP_LINE_DEVICES_MAX,
)

SHOWN_LENGTH_MAX: Final = 80

_BLANKS: Final = " \t"
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NODE: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NODE_LENGTH_MAX: Final = 253
_FOLDED: Final = (
    'more than one "=", the map looks folded onto one line; '
    "write one entry per line, in YAML below a literal block (|)"
)
# A long map takes megabytes after parsing, so fewer of them are cached.
_LONG_TEXT: Final = 16_384
_REMEMBERED_SHORT: Final = 512
_REMEMBERED_LONG: Final = 8


class MapError(ValueError):
    """An invalid map; ``str()`` is the message for its author."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"{well_known.MAP} line {line}: {problem}")
        self.line = line
        self.problem = problem


class MapEntry(msgspec.Struct, frozen=True, gc=False):
    """One line: the devices of the pod with this index; never in a cycle, so the GC skips it."""

    index: int
    node: str
    devices: tuple[int, ...]

    @property
    def value(self) -> str:
        """The devices as a value of ``CUDA_VISIBLE_DEVICES``, in the map's order."""
        return ",".join(map(str, self.devices))


class GpuMap(msgspec.Struct, frozen=True):
    """A valid map; shared between callers, hence read-only."""

    entries: Mapping[int, MapEntry]
    indexes: tuple[int, ...]


def parse(text: str) -> GpuMap:
    """Read a map, or raise :class:`MapError` naming the first line that is wrong.

    >>> parse("0=gpu-a:2,0").entries[0].value
    '2,0'
    """
    found = _read_long(text) if len(text) > _LONG_TEXT else _read_short(text)
    if isinstance(found, GpuMap):
        return found
    raise MapError(*found)


# A cached exception would accumulate tracebacks, so an invalid map is cached as the arguments of
# its error.
@lru_cache(_REMEMBERED_SHORT)
def _read_short(text: str) -> GpuMap | tuple[int, str]:
    return _read(text)


@lru_cache(_REMEMBERED_LONG)
def _read_long(text: str) -> GpuMap | tuple[int, str]:
    return _read(text)


def _read(text: str) -> GpuMap | tuple[int, str]:
    if len(text) > MAP_LENGTH_MAX:
        return 1, f"the map is longer than {MAP_LENGTH_MAX} characters"
    entries: dict[int, MapEntry] = {}
    lines: dict[int, int] = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.removesuffix("\r").strip(_BLANKS)
        if not line:
            continue
        entry = _entry(line)
        if isinstance(entry, str):
            return number, f"{entry}: {shown(line)}"
        if entry.index in lines:
            first = lines[entry.index]
            return number, f"index {entry.index} is already on line {first}: {shown(line)}"
        lines[entry.index] = number
        entries[entry.index] = entry
    if not entries:
        return 1, "the map is empty, expected lines such as 0=node1:0,1"
    return GpuMap(MappingProxyType(entries), tuple(sorted(entries)))


def _entry(line: str) -> MapEntry | str:
    """The entry of one line, or its problem."""
    before, equals, after = line.partition("=")
    if not equals:
        return 'no "=", expected <index>=<node>:<devices>'
    if "=" in after:
        return _FOLDED
    index = canonical_number(before.rstrip(_BLANKS))
    if index is None:
        return f'the index before "=" must be a plain decimal number up to {MAP_INDEX_MAX}'
    name, colon, numbers = after.partition(":")
    node = name.strip(_BLANKS)
    if not colon:
        return f'no devices after node "{shown(node)}", expected <index>=<node>:<devices>'
    if len(node) > _NODE_LENGTH_MAX or _NODE.fullmatch(node) is None:
        return f'"{shown(node)}" is not a node name or alias (lower-case letters, digits, "-", ".")'
    devices = _devices(node, numbers)
    return devices if isinstance(devices, str) else MapEntry(index, node, devices)


def _devices(node: str, text: str) -> tuple[int, ...] | str:
    if not text.strip(_BLANKS):
        return f'no devices after "{shown(node)}:"'
    if text.count(",") >= MAP_LINE_DEVICES_MAX:
        return f"more than {MAP_LINE_DEVICES_MAX} devices"
    devices: dict[int, None] = {}
    for item in text.split(","):
        word = item.strip(_BLANKS)
        device = canonical_number(word, MAP_DEVICE_MAX)
        if device is None:
            return f'"{shown(word)}" is not a device number'
        if device in devices:
            return f"device {device} is named twice"
        devices[device] = None
    return tuple(devices)


def canonical_number(text: str, limit: int = MAP_INDEX_MAX) -> int | None:
    """A decimal in ASCII digits without sign, blanks or leading zeros, up to ``limit``.

    >>> canonical_number("10"), canonical_number("01"), canonical_number("1_0")
    (10, None, None)
    """
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number <= limit else None


def shown(text: str, length_max: int = SHOWN_LENGTH_MAX) -> str:
    """A user's text, cut and escaped, so that it is safe in a log line or an API answer."""
    safe = "".join(map(_printable, text[: length_max + 1]))
    return safe if len(safe) <= length_max else safe[: length_max - 3] + "..."


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
