"""``python -m tools.architecture``: draw docs/architecture.svg from the imports of scheduler.

The rows are the layers that `.importlinter` enforces, the boxes are the modules and packages at the
root of ``scheduler``, and an arrow says that one box imports another. An import that follows from
other arrows is not drawn. Under each name stands the first sentence of its docstring.
"""

from __future__ import annotations

import ast
import configparser
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "scheduler"
DRAWING: Final = ROOT / "docs" / "architecture.svg"
LAYERS: Final = "importlinter:contract:one-way"

WIDTH: Final = 960
BOX: Final = (290, 46)
ROW_HEIGHT: Final = 78
MARGIN: Final = 24
STYLE: Final = """\
text { font: bold 14px sans-serif; fill: #1b1f24; text-anchor: middle; }
.about { font: 11px sans-serif; fill: #57606a; }
rect { fill: #f6f8fa; stroke: #57606a; rx: 6; }
path { fill: none; stroke: #8c959f; stroke-width: 1.2; marker-end: url(#head); }"""


class Box(NamedTuple):
    """A module or package at the root of the package, and where it is drawn."""

    name: str
    about: str
    x: float
    y: float


def layers(config: Path = ROOT / ".importlinter") -> list[list[str]]:
    """The names of each layer, highest first."""
    parser = configparser.ConfigParser()
    parser.read(config, encoding="utf-8")
    rows = parser[LAYERS]["layers"].strip().splitlines()
    return [[name.strip(" ()") for name in row.split("|")] for row in rows]


def imports(package: Path = ROOT / PACKAGE) -> Counter[tuple[str, str]]:
    """(importer, imported) of the boxes -> number of import statements."""
    found: Counter[tuple[str, str]] = Counter()
    for file in sorted(package.rglob("*.py")):
        importer = file.relative_to(package).parts[0].removesuffix(".py")
        for name in _imported(ast.parse(file.read_text(encoding="utf-8"))):
            parts = name.split(".")
            if parts[0] == PACKAGE and len(parts) > 1 and parts[1] != importer:
                found[importer, parts[1]] += 1
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == PACKAGE:
                yield from (f"{PACKAGE}.{alias.name}" for alias in node.names)
            else:
                yield node.module


def about(package: Path, name: str) -> str:
    """The first sentence of a module's docstring, without the full stop."""
    file = package / name / "__init__.py"
    source = file if file.exists() else package / f"{name}.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ").partition(". ")[0].rstrip(".")


def reduced(arrows: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The arrows that do not follow from others."""
    below: dict[str, set[str]] = {}
    for source, target in arrows:
        below.setdefault(source, set()).add(target)

    def reaches(source: str, target: str) -> bool:
        inner = below.get(source, set())
        return target in inner or any(reaches(one, target) for one in inner)

    return {
        (source, target)
        for source, targets in below.items()
        for target in targets
        if not any(reaches(one, target) for one in targets - {target})
    }


def boxes(rows: list[list[str]], package: Path = ROOT / PACKAGE) -> dict[str, Box]:
    """Every box by its name, the boxes of a row beside each other."""
    placed: dict[str, Box] = {}
    for row, names in enumerate(rows):
        step = WIDTH / len(names)
        for column, name in enumerate(names):
            x, y = step * (column + 0.5), MARGIN + BOX[1] / 2 + row * ROW_HEIGHT
            placed[name] = Box(name, about(package, name), x, y)
    return placed


def render() -> str:
    """The drawing's text."""
    rows = layers()
    placed = boxes(rows)
    arrows = imports()
    unplaced = {name for pair in arrows for name in pair} - placed.keys() - {"__init__"}
    assert not unplaced, f"no layer for: {', '.join(sorted(unplaced))}"
    height = 2 * MARGIN + BOX[1] + (len(rows) - 1) * ROW_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img">',
        "<title>The layers of gpu-scheduler and the imports between them</title>",
        f"<style>\n{STYLE}\n</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"'
        ' style="fill:#8c959f;stroke:none"/></marker></defs>',
        *(_arrow(placed[source], placed[target]) for source, target in sorted(reduced(arrows))),
        *map(_box, placed.values()),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(box: Box) -> str:
    width, height = BOX
    return (
        f'<rect x="{box.x - width / 2:.0f}" y="{box.y - height / 2:.0f}" width="{width}"'
        f' height="{height}"/><text x="{box.x:.0f}" y="{box.y - 3:.0f}">{escape(box.name)}</text>'
        f'<text class="about" x="{box.x:.0f}" y="{box.y + 13:.0f}">{escape(box.about)}</text>'
    )


def _arrow(source: Box, target: Box) -> str:
    """From the bottom of a box to the top of a lower one, bent aside if rows lie between."""
    top, bottom = source.y + BOX[1] / 2, target.y - BOX[1] / 2
    if bottom < top:  # beside or above: an arrow that the layers forbid, drawn nevertheless
        top, bottom = source.y, target.y
    rows = max(1, round((target.y - source.y) / ROW_HEIGHT))
    side = 1 if (source.x + target.x) / 2 >= WIDTH / 2 else -1
    bend = side * 110 * min(rows - 1, 2)
    middle = (top + bottom) / 2
    x1, x2 = source.x + side * 4 * (rows - 1), target.x + side * 4 * (rows - 1)
    return (
        f'<path d="M{x1:.0f} {top:.0f} C{x1 + bend:.0f} {middle:.0f} {x2 + bend:.0f}'
        f' {middle:.0f} {x2:.0f} {bottom:.0f}"><title>{source.name} imports {target.name}'
        "</title></path>"
    )


def main() -> int:
    """Write the drawing."""
    DRAWING.write_text(render(), encoding="utf-8")
    arrows = imports()
    drawn = len(reduced(arrows))
    print(f"docs/{DRAWING.name}: {len(boxes(layers()))} boxes, {drawn} of {len(arrows)} arrows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
