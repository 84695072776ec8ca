"""The tables of ``gpuctl whatif``: both situations side by side, then what waits and what moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from gpuctl.device_words import counted
from gpuctl.output.columns import Columns
from gpuctl.output.devices import NOTHING, listed
from gpuctl.output.text import plain
from gpuctl.whatif.result import Move, PodResult, Situation, WhatIf
from scheduler.state.capacity.node_devices import slice_size

NAMES_SHOWN: Final = 2


class _Lines(msgspec.Struct, frozen=True):
    """One line of the first table: its words, and the cell of a situation."""

    words: str
    cell: Callable[[Situation], str]


def render(found: WhatIf) -> RenderableType:
    """The whole answer for a terminal."""
    parts: list[RenderableType] = [_table(found)]
    if any(one.reason for one in found.now.pods if not one.node):
        parts += ["", *_waiting("waits now", found.now)]
    if found.change is not None and any(one.reason for one in found.change.pods if not one.node):
        parts += ["", *_waiting("waits with the change", found.change)]
    if found.moves:
        parts += ["", *_moves(found.moves)]
    parts += [plain(line) for line in _lines(found)]
    return Group(*parts)


def _table(found: WhatIf) -> Columns:
    shown = [found.now] if found.change is None else [found.now, found.change]
    heads = ("NOW", "WITH THE CHANGE")[: len(shown)]
    table = Columns("", *heads, prose=heads)
    for line in _rows(found):
        table.add_row(line.words, *(line.cell(one) for one in shown))
    if found.moves:
        table.add_row("others that must move", NOTHING, _moving(found.moves))
    for words, cell in (("free afterwards", _free), ("largest block", _largest)):
        table.add_row(words, *(cell(one) for one in shown))
    return table


def _rows(found: WhatIf) -> Iterator[_Lines]:
    if found.now.asked:
        yield _Lines("starts at once", lambda one: f"{one.starts} of {one.asked}")
        yield _Lines("waits", lambda one: str(one.asked - one.starts))
    if found.now.others_wait or (found.change and found.change.others_wait):
        yield _Lines("others that wait", lambda one: str(one.others_wait))
    if found.now.preempted or (found.change and found.change.preempted):
        yield _Lines("preempted", lambda one: counted(len(one.preempted), "pod"))


def _moving(moves: Iterable[Move]) -> str:
    moves = tuple(moves)
    parts = [counted(len(moves), "pod")]
    waiting = sum(not one.node and not one.stays for one in moves)
    stuck = sum(one.stays for one in moves)
    parts += [f"{waiting} would wait"] if waiting else []
    parts += [f"{stuck} cannot"] if stuck else []
    return ", ".join(parts)


def _free(one: Situation) -> str:
    return listed(
        {
            unit: sum(m.devices[unit].free for m in one.models if unit in m.devices)
            for unit in {unit for model in one.models for unit in model.devices}
        }
    )


def _largest(one: Situation) -> str:
    """Whole GPUs of one node, and the largest slice."""
    gpus = max((model.largest for model in one.models), default=0)
    biggest = max((model.largest_slice for model in one.models), key=slice_size, default="")
    parts = [counted(gpus, "GPU")] if gpus else []
    return ", ".join((*parts, biggest) if biggest else parts) or NOTHING


def _waiting(title: str, one: Situation) -> list[RenderableType]:
    """The reasons, each once, with its pods."""
    groups: dict[str, list[PodResult]] = {}
    for pod in one.pods:
        if not pod.node:
            groups.setdefault(pod.reason, []).append(pod)
    table = Columns("PODS", "WHY", prose=("WHY",))
    for reason, pods in sorted(groups.items(), key=lambda item: -len(item[1])):
        table.add_row(plain(_names([pod.pod for pod in pods])), plain(reason))
    return [Text(title, style="bold"), table]


def _names(names: list[str]) -> str:
    shown = names[:1] if len(names) > NAMES_SHOWN else names
    more = len(names) - len(shown)
    return "\n".join(shown) + (f"\nand {more} more" if more else "")


def _moves(moves: Iterable[Move]) -> list[RenderableType]:
    table = Columns("POD", "FROM", "TO", "WHY", prose=("WHY",), optional=("FROM",))
    for one in moves:
        to = one.node or ("cannot" if one.stays else "waits")
        name = f"{one.namespace}/{one.pod}"
        table.add_row(plain(name), plain(one.source), plain(to), plain(one.reason))
    return [Text("must move", style="bold"), table]


def _lines(found: WhatIf) -> Iterator[str]:
    yield ""
    preempted = (found.change or found.now).preempted
    if preempted:
        yield f"ends for pods of a higher priority: {', '.join(preempted)}"
    if found.added:
        likes = dict.fromkeys(one.like for one in found.added)
        for like in likes:
            count = sum(one.like == like for one in found.added)
            yield f"added {counted(count, 'node')} like {like}"
    yield from found.failed
    for note in found.notes:
        yield f"note: {note}"
    clock = found.time.partition("T")[2][:8] or found.time
    verdict = "all start" if found.all_start else "Exit 2: not all start"
    yield f"nothing was changed; decided by {found.program} on the state of {clock} UTC. {verdict}"
