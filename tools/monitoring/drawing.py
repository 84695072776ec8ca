"""Elements of SVG, colors, and numbers with their unit as Grafana shows them."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape, quoteattr

PAGE, PANEL, BORDER = "#111217", "#181b1f", "#2b2e34"
TEXT, MUTED, GRID = "#ccccdc", "#8e8e9b", "#2b2e34"
#: Of Grafana's thresholds.
COLORS: Final = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c", "text": TEXT}
#: Of the series, in their order.
SERIES: Final = (
    *("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#96d98d"),
    *("#ffb357", "#fade2a", "#ca95e5", "#ff7383"),
)
#: Letters of this size are about so wide, as a share of it.
_LETTER: Final = 0.55
_MIB_PER_GIB: Final = 1024


def element(name: str, **values: object) -> str:
    """An element without content; ``_`` in a name stands for ``-``."""
    words = (f"{key.replace('_', '-')}={quoteattr(_short(value))}" for key, value in values.items())
    return f"<{name} {' '.join(words)}/>"


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: float = 12,
    weight: str = "normal",
    fill: str = TEXT,
    anchor: str = "start",
) -> str:
    """A line of text."""
    return (
        f'<text x="{_short(x)}" y="{_short(y)}" font-size="{_short(size)}" fill="{fill}"'
        f' font-weight="{weight}" text-anchor="{anchor}">{escape(content)}</text>'
    )


def fitting(content: str, width: float, size: float = 12) -> str:
    """The text, cut where it is wider."""
    letters = max(4, int(width / (size * _LETTER)))
    return content if len(content) <= letters else f"{content[: letters - 1]}…"


def _short(value: object) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def number(value: float, unit: str) -> str:  # noqa: PLR0911 - one for each unit
    """A value with its unit.

    >>> number(0.25, "percentunit"), number(75.0, "s"), number(12.0, "short"), number(0.004, "s")
    ('25%', '1.25 min', '12', '4 ms')
    """
    match unit:
        case "percentunit":
            return f"{_rounded(100 * value)}%"
        case "percent":
            return f"{_rounded(value)}%"
        case "s" if 0 < value < 1:
            return f"{_rounded(1000 * value)} ms"
        case "s" if value >= 60:
            return f"{_rounded(value / 60)} min"
        case "s" | "d":
            return f"{_rounded(value)} {unit if unit == 's' else 'days'}"
        case "decmbytes":
            return f"{_rounded(value / _MIB_PER_GIB)} GiB"
        case "celsius":
            return f"{_rounded(value)} °C"
        case "watt":
            return f"{_rounded(value)} W"
    return _rounded(value)


def _rounded(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
