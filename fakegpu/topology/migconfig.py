"""The MIG configuration of a node, in all the shapes that are in use.

    version: v1
    mig-configs:
      selected:                       # or one of several, by name
      - devices: all                  # or [0, 1], ["0"], 0
        mig-enabled: true
        mig-devices:                  # any of
          0: 2g.20gb                  #   position -> profile
          "2g.20gb": 3                #   profile -> count
          - 1g.10gb                   #   a list of profiles
          - {name: 1g.10gb, position: 6, size: 1}

An entry may also stand alone, without ``mig-configs``. GPUs that no entry names are whole. What
comes out is a layout for each GPU, legal on its board; where positions are left open, the largest
instances go first, each as far in front as the rest allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from fakegpu.topology.invalid import Invalid, convert, read_yaml
from scheduler.model import mig

#: For each GPU its layout, or None while it is not in MIG mode.
Layouts = tuple[mig.Layout | None, ...]

SELECTED: Final = "selected"
COUNT_MAX: Final = 8
BALANCED: Final = {7: (3, 2, 1, 1), 4: (2, 1, 1), 2: (1, 1)}


class _Entry(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    devices: Any = "all"
    mig_enabled: bool = True
    mig_devices: Any = None
    device_filter: Any = None


class _Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    position: int | None = None
    size: int | None = None


class _Wish(msgspec.Struct, frozen=True):
    """One instance, somewhere or at a position."""

    profile: str
    position: int | None = None
    size: int | None = None


def read(text: str, boards: Sequence[mig.Board | None], selected: str = "") -> Layouts:
    """The layouts of a node with these boards; Invalid says what cannot be."""
    return from_document(read_yaml(text, ""), boards, selected)


def from_document(
    document: object, boards: Sequence[mig.Board | None], selected: str = "", path: str = ""
) -> Layouts:
    """The same, from a document that is part of another one."""
    found: list[mig.Layout | None] = [None] * len(boards)
    named: set[int] = set()
    for place, entry in _entries(document, selected, path):
        for gpu in _indexes(entry.devices, len(boards), f"{place}.devices"):
            board = boards[gpu]
            if entry.device_filter is not None and not _passes(entry.device_filter, board):
                continue
            if gpu in named:
                raise Invalid(place, f"GPU {gpu} is named by an earlier entry too")
            named.add(gpu)
            found[gpu] = _cut(entry, board, gpu, place)
    return tuple(found)


def by_name(name: str, boards: Sequence[mig.Board | None]) -> Layouts:
    """The configurations that every mig-manager knows: ``all-disabled``, ``all-1g.10gb`` ..."""
    word = name.removeprefix("all-")
    if word == "disabled":
        return (None,) * len(boards)
    return tuple(_whole(name, word, board, gpu) for gpu, board in enumerate(boards))


def _whole(name: str, word: str, board: mig.Board | None, gpu: int) -> mig.Layout:
    if board is None:
        raise Invalid(name, f"GPU {gpu} cannot be cut: its product has no MIG")
    if word == "enabled":
        return ()
    if word == "balanced":
        computes = BALANCED[board.compute_slices]
        wanted = [next(p.name for p in board.plain if p.compute == c) for c in computes]
    else:
        profile = mig.profile_of(board, word) if name.startswith("all-") else None
        if profile is None:
            raise Invalid(name, f"no such configuration for {board.name}")
        wanted = [profile.name] * mig.capacity(board, ())[profile.name]
    return _placed(board, (), wanted, name)


def _entries(document: object, selected: str, path: str) -> list[tuple[str, _Entry]]:
    if isinstance(document, dict) and "mig-configs" in document:
        for key in document:
            if key not in ("version", "mig-configs"):
                raise Invalid(f"{path}.{key}".lstrip("."), "unknown key")
        path = f"{path}.mig-configs".lstrip(".")
        document = document["mig-configs"]
        if isinstance(document, dict):
            name = _choice(document, selected, path)
            path, document = f"{path}.{name}", document[name]
    if not isinstance(document, list):
        return [(path, convert(document, _Entry, path))]
    return [
        (f"{path}[{n}]", convert(one, _Entry, f"{path}[{n}]")) for n, one in enumerate(document)
    ]


def _choice(configs: dict[Any, Any], selected: str, path: str) -> Any:
    for name in (selected, SELECTED):
        if name in configs:
            return name
    if len(configs) != 1:
        raise Invalid(path, f"expected the entry {SELECTED!r}, or only one")
    return next(iter(configs))


def _indexes(devices: object, count: int, path: str) -> list[int]:
    if devices == "all":
        return list(range(count))
    parts: Iterable[object] = devices if isinstance(devices, list) else [devices]
    found = []
    for part in parts:
        for text in str(part).split(","):
            text = text.strip()
            if isinstance(part, bool) or not (text.isascii() and text.isdigit()):
                raise Invalid(path, f"expected 'all' or GPU indexes, got {part!r}")
            if int(text) >= count:
                raise Invalid(path, f"there is no GPU {text}, the node has {count}")
            found.append(int(text))
    return found


def _passes(filters: object, board: mig.Board | None) -> bool:
    wanted = filters if isinstance(filters, list) else [filters]
    return board is not None and any(mig.board_of(str(one)) is board for one in wanted)


def _cut(entry: _Entry, board: mig.Board | None, gpu: int, path: str) -> mig.Layout | None:
    if not entry.mig_enabled:
        return None
    if board is None:
        raise Invalid(path, f"GPU {gpu} cannot be cut: its product has no MIG")
    path = f"{path}.mig-devices".lstrip(".")
    wishes = _wishes(entry.mig_devices, path)
    for wish in wishes:
        _check(board, wish, path)
    fixed = mig.layout_of((w.profile, w.position) for w in wishes if w.position is not None)
    flaw = mig.flaw(board, fixed)
    if flaw:
        raise Invalid(path, f"GPU {gpu}: {flaw}")
    return _placed(board, fixed, [w.profile for w in wishes if w.position is None], path)


def _check(board: mig.Board, wish: _Wish, path: str) -> None:
    profile = mig.profile_of(board, wish.profile)
    if profile is None:
        known = ", ".join(one.name for one in board.plain)
        raise Invalid(path, f"{wish.profile} is no profile of {board.name}; it has {known}")
    # Three sevenths of compute take four slices of memory: either number is in use for a 3g.
    if wish.size is not None and wish.size not in (profile.size, profile.compute):
        raise Invalid(path, f"{wish.profile} has the size {profile.size}, not {wish.size}")


def _wishes(devices: object, path: str) -> list[_Wish]:
    if devices is None:
        return []
    if isinstance(devices, list):
        return [_listed(one, f"{path}[{number}]") for number, one in enumerate(devices)]
    if not isinstance(devices, dict):
        raise Invalid(path, f"expected a map or a list, got {devices!r}")
    found: list[_Wish] = []
    for key, value in devices.items():
        found += _mapped(key, value, f"{path}.{key}")
    return found


def _listed(one: object, path: str) -> _Wish:
    if isinstance(one, str):
        return _Wish(mig.canonical(one))
    device = convert(one, _Device, path)
    return _Wish(mig.canonical(device.name), device.position, device.size)


def _mapped(key: object, value: object, path: str) -> list[_Wish]:
    if isinstance(value, str) and str(key).isdigit() and not isinstance(key, bool):
        return [_Wish(mig.canonical(value), int(str(key)))]
    if isinstance(key, str) and isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= COUNT_MAX:
            raise Invalid(path, f"expected a count from 0 to {COUNT_MAX}, got {value}")
        return [_Wish(mig.canonical(key))] * value
    raise Invalid(path, "expected position: profile, or profile: count")


def _placed(board: mig.Board, fixed: mig.Layout, wanted: list[str], path: str) -> mig.Layout:
    def size(name: str) -> int:
        profile = mig.profile_of(board, name)
        return profile.size if profile else 0

    found = _search(board, fixed, sorted(wanted, key=lambda name: (-size(name), name)))
    if found is None:
        text = " + ".join([*(name for name, _ in fixed), *wanted])
        raise Invalid(path, f"{text} do not fit on one {board.name} together")
    return found


def _search(board: mig.Board, layout: mig.Layout, wanted: list[str]) -> mig.Layout | None:
    if not wanted:
        return layout
    for start in mig.fits(board, layout, wanted[0]):
        found = _search(board, mig.with_slot(layout, wanted[0], start), wanted[1:])
        if found is not None:
            return found
    return None
