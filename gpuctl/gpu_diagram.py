"""Slots of GPUs as a picture: in a terminal, and as SVG.

Both are drawn from ``gpuctl/gpu_rows``. A name that is too long for its cell loses its middle; in
the SVG the whole of it is the cell's title."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from rich.console import Group, RenderableType
from rich.text import Text

from gpuctl.gpu_rows import Cell, GpuRow, Use

#: Columns of one slice in a terminal: eight of them fit into 80 with the margin.
SLICE_COLUMNS: Final = 9
MARGIN: Final = "  "
SLICES_MAX: Final = 8
STYLES: Final = {
    Use.HELD: "bold cyan",
    Use.IDLE: "yellow",
    Use.FREE: "dim",
    Use.BLOCKED: "bold red",
}
WORDS: Final = {Use.IDLE: "idle", Use.FREE: "", Use.BLOCKED: "blocked"}

_SLICE: Final = 96
_HEIGHT: Final = 44
_TITLE: Final = 28
_EDGE: Final = 12
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#1b1f24}.title{font-weight:bold}"
    "rect{stroke:#57606a}.held{fill:#9cd7e8}.idle{fill:#f4e3a1}.free{fill:#fff}"
    ".blocked{fill:#f3b0ad}"
)


def pictures(strips: Iterable[GpuRow]) -> RenderableType:
    """All strips, one under the other."""
    parts: list[RenderableType] = []
    for strip in strips:
        parts += ["", Text(f"{strip.node}: {strip.title}", style="bold")]
        for row in _rows(strip):
            parts += [_line(row, _what), _line(row, _who)]
    return Group(*parts[1:])


def _rows(strip: GpuRow) -> Iterator[Sequence[Cell]]:
    """A GPU's cells stay in one row; many devices go on in the next."""
    if strip.width <= SLICES_MAX:
        yield strip.cells
        return
    for at in range(0, len(strip.cells), SLICES_MAX):
        yield strip.cells[at : at + SLICES_MAX]


def _line(cells: Sequence[Cell], text_of: Callable[[Cell], str]) -> Text:
    line = Text(MARGIN)
    for cell in cells:
        room = cell.width * SLICE_COLUMNS - 2
        line.append(f"[{_cut(text_of(cell), room):<{room}}]", style=STYLES[cell.use])
    return line


def _what(cell: Cell) -> str:
    return cell.what


def _who(cell: Cell) -> str:
    return cell.holder or WORDS.get(cell.use, "")


def svg(strips: Sequence[GpuRow]) -> str:
    """One document with every strip; a cell's title names it in full."""
    parts: list[str] = []
    top = _EDGE
    widest = 1
    for strip in strips:
        text = escape(f"{strip.node}: {strip.title}")
        parts.append(f'<text class="title" x="{_EDGE}" y="{top + 16}">{text}</text>')
        top += _TITLE
        for row in _rows(strip):
            first = row[0].start
            widest = max(widest, row[-1].start + row[-1].width - first)
            parts += [_rectangle(cell, cell.start - first, top) for cell in row]
            top += _HEIGHT + 4
        top += _EDGE
    width = widest * _SLICE + 2 * _EDGE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}">'
    return "\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>"])


def _rectangle(cell: Cell, at: int, top: int) -> str:
    left, width = _EDGE + at * _SLICE, cell.width * _SLICE
    room = width // 7 - 1
    what, who = _what(cell), _who(cell)
    full = escape(" ".join(word for word in (what or "free", who) if word))
    lines = "".join(
        f'<text x="{left + 5}" y="{top + y}">{escape(_cut(text, room))}</text>'
        for text, y in ((what, 17), (who, 34))
        if text
    )
    box = (
        f'<rect class="{cell.use.value}" x="{left}" y="{top}" width="{width}" height="{_HEIGHT}"/>'
    )
    return f"<g><title>{full}</title>{box}{lines}</g>"


def _cut(text: str, room: int) -> str:
    """Pods of one workload differ at the end of their names, so that stays.

    >>> _cut("infer-5cbcdcf4cb-57sq7", 11)
    'infer…57sq7'
    """
    if len(text) <= room:
        return text
    end = room // 2
    return text[: room - 1 - end] + "…" + text[-end:]
