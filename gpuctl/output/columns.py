"""A table that fits the width of the terminal.

In a narrow terminal the optional columns are dropped, the last one first. If the rest does not fit
either, a row becomes a block of lines. Only prose is wrapped, between words: a name stays whole, so
that it can be copied, also one within prose. Only a list without spaces is split.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from textwrap import TextWrapper
from typing import Final

from rich.align import Align
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

#: Prose is not wrapped to less than this.
PROSE_MIN: Final = 24
_GAP: Final = 2


class Columns:
    """Rows below headers; ``prose`` names the columns that wrap, ``optional`` those to drop."""

    def __init__(
        self, *headers: str, prose: Collection[str] = (), optional: Sequence[str] = ()
    ) -> None:
        self._headers = headers
        self._prose = frozenset(prose)
        self._optional = optional
        self._rows: list[tuple[Text, ...]] = []

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def add_row(self, *cells: str | Text) -> None:
        """Add one row: a cell per header, without markup."""
        self._rows.append(tuple(c if isinstance(c, Text) else Text(c) for c in cells))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        dropped: set[str] = set()
        for header in (None, *reversed(self._optional)):
            dropped |= {header} if header else set()
            shown = [at for at, one in enumerate(self._headers) if one not in dropped]
            if self._least(shown) <= options.max_width:
                yield from self._table(shown, options.max_width)
                return
        yield from self._blocks(console, shown, options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        every = range(len(self._headers))
        most = sum(map(self._width, every)) + _GAP * len(every)
        return Measurement(1, most).with_maximum(options.max_width)

    def _width(self, at: int) -> int:
        return max(cell_len(line) for text in self._texts(at) for line in text.split("\n"))

    def _texts(self, at: int) -> Iterator[str]:
        yield self._headers[at]
        for row in self._rows:
            yield row[at].plain

    def _least(self, shown: Sequence[int]) -> int:
        return sum(map(self._least_of, shown)) + _GAP * (len(shown) - 1)

    def _least_of(self, at: int) -> int:
        """The width below which a name of the column would be split."""
        width = self._width(at)
        if self._headers[at] not in self._prose:
            return width
        names = (cell_len(word) for text in self._texts(at) for word in _names(text))
        return min(width, max(PROSE_MIN, *names))

    def _fitted(self, shown: Sequence[int], width: int) -> list[int]:
        """The widths of columns in a terminal: prose shares what the others leave."""
        least = [self._least_of(at) for at in shown]
        wanted = [self._width(at) - few for at, few in zip(shown, least, strict=True)]
        rest = width - sum(least) - _GAP * (len(shown) - 1)
        for left, number in enumerate(sorted(range(len(shown)), key=wanted.__getitem__)):
            more = min(wanted[number], rest // (len(shown) - left))
            least[number] += more
            rest -= more
        return least

    def _table(self, shown: Sequence[int], width: int) -> RenderResult:
        widths = [self._width(at) for at in shown]
        cells = (text for at in shown for text in self._texts(at))
        is_multiline = any("\n" in text for text in cells)
        if sum(widths) + _GAP * (len(shown) - 1) <= width and not is_multiline:
            yield self._lines(shown, widths)
        else:
            yield self._wrapped(shown, self._fitted(shown, width))

    def _lines(self, shown: Sequence[int], widths: Sequence[int]) -> Text:
        """The table where nothing wraps: rich.Table needs ten times as long for it."""
        head = tuple(Text(header, style="bold") for header in self._headers)
        lines = []
        for row in (head, *self._rows):
            line = Text(no_wrap=True, overflow="ignore")
            for at, width in zip(shown, widths, strict=True):
                line.append_text(row[at])
                line.append(" " * (width - row[at].cell_len + _GAP))
            line.rstrip()
            lines.append(line)
        return Text("\n", no_wrap=True, overflow="ignore").join(lines)

    def _wrapped(self, shown: Sequence[int], widths: Sequence[int]) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for at, width in zip(shown, widths, strict=True):
            header = self._headers[at]
            is_prose = header in self._prose
            head = Align(Text(header), vertical="bottom")
            table.add_column(head, overflow="fold", no_wrap=not is_prose, width=width)
        for row in self._rows:
            table.add_row(*(row[at] for at in shown))
        return table

    def _blocks(self, console: Console, shown: Sequence[int], width: int) -> RenderResult:
        names = [self._headers[at].replace("\n", "") for at in shown]
        margin = max(map(len, names), default=0) + _GAP
        for number, row in enumerate(self._rows):
            if number:
                yield Text("")
            for at, name in zip(shown, names, strict=True):
                is_prose = self._headers[at] in self._prose
                lines = _wrapped(row[at], console, width - margin) if is_prose else (row[at],)
                head = Text(f"{name:<{margin}}", style="bold")
                for line in lines:
                    whole = Text(no_wrap=True, overflow="ignore")
                    yield whole.append_text(head).append_text(line)
                    head = Text(" " * margin)


def _names(text: str) -> Iterator[str]:
    """The words that must not be split; a list of amounts may be."""
    return (word for word in text.split() if "," not in word.rstrip(","))


def _wrapped(text: Text, console: Console, width: int) -> Sequence[Text]:
    """The lines of prose; a name that is longer than a line stays whole."""
    width = max(width, 1)
    if max(map(cell_len, _names(text.plain)), default=0) <= width:
        return list(text.wrap(console, width, overflow="fold"))
    wrapper = TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return [Text(line) for part in text.plain.splitlines() for line in wrapper.wrap(part)]
