"""Draws the rows of ``gpu_rows`` for a terminal and as SVG.

The middle of a name that is too long for its cell is left out; in the SVG the cell's title has the
full name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from gpuctl.output.gpu_rows import Cell, GpuRow, Use

#: Columns of one slice in a terminal: eight slices and the margin fit into 80 columns; in a
#: narrower terminal a slice has as few as SLICE_COLUMNS_MIN.
SLICE_COLUMNS: Final = 9
SLICE_COLUMNS_MIN: Final = 6
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


def text(rows: Iterable[GpuRow]) -> RenderableType:
    """The rows for a terminal, one below the other, in its width."""
    return _Diagram(tuple(rows))


class _Diagram:
    """Slices as wide as the terminal allows; a slice is never broken."""

    def __init__(self, rows: Sequence[GpuRow]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - len(MARGIN)
        columns = min(SLICE_COLUMNS, max(SLICE_COLUMNS_MIN, room // SLICES_MAX))
        in_line = max(1, min(SLICES_MAX, room // columns))
        for number, row in enumerate(self._rows):
            if number:
                yield Text("")
            yield Text(f"{row.node}: {row.title}", style="bold")
            for cells in _wrapped(row, in_line):
                yield _line(cells, _name, columns)
                yield _line(cells, _holder, columns)


def _wrapped(row: GpuRow, in_line: int) -> Iterator[Sequence[Cell]]:
    """The cells in lines of at most ``in_line`` slices."""
    line: list[Cell] = []
    used = 0
    for cell in row.cells:
        if line and used + cell.width > in_line:
            yield line
            line, used = [], 0
        line.append(cell)
        used += cell.width
    if line:
        yield line


def _line(cells: Sequence[Cell], text_of: Callable[[Cell], str], columns: int) -> Text:
    line = Text(MARGIN, no_wrap=True, overflow="ignore")
    for cell in cells:
        room = cell.width * columns - 2
        line.append(f"[{_shortened(text_of(cell), room):<{room}}]", style=STYLES[cell.use])
    return line


def _name(cell: Cell) -> str:
    return cell.name


def _holder(cell: Cell) -> str:
    return cell.holder or WORDS.get(cell.use, "")


def svg(rows: Sequence[GpuRow]) -> str:
    """One document with all rows; a cell's title is its full name."""
    parts: list[str] = []
    top = _EDGE
    widest = 1
    for row in rows:
        title = escape(f"{row.node}: {row.title}")
        parts.append(f'<text class="title" x="{_EDGE}" y="{top + 16}">{title}</text>')
        top += _TITLE
        for cells in _wrapped(row, SLICES_MAX):
            first = cells[0].start
            widest = max(widest, cells[-1].start + cells[-1].width - first)
            parts += [_rectangle(cell, cell.start - first, top) for cell in cells]
            top += _HEIGHT + 4
        top += _EDGE
    width = widest * _SLICE + 2 * _EDGE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}">'
    return "\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>"])


def _rectangle(cell: Cell, at: int, top: int) -> str:
    left, width = _EDGE + at * _SLICE, cell.width * _SLICE
    room = width // 7 - 1
    name, holder = _name(cell), _holder(cell)
    full = escape(" ".join(word for word in (name or "free", holder) if word))
    lines = "".join(
        f'<text x="{left + 5}" y="{top + y}">{escape(_shortened(content, room))}</text>'
        for content, y in ((name, 17), (holder, 34))
        if content
    )
    box = (
        f'<rect class="{cell.use.value}" x="{left}" y="{top}" width="{width}" height="{_HEIGHT}"/>'
    )
    return f"<g><title>{full}</title>{box}{lines}</g>"


def _shortened(name: str, room: int) -> str:
    """The name without its middle: the pods of one workload differ at the end.

    >>> _shortened("infer-5cbcdcf4cb-57sq7", 11)
    'infer…57sq7'
    """
    if len(name) <= room:
        return name
    end = room // 2
    return name[: room - 1 - end] + "…" + name[-end:]
