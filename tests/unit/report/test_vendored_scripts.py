"""Vendored scripts are those of the packages, and the page has nothing inline."""

from __future__ import annotations

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

ASSETS = Path(__file__).parents[3] / "scheduler" / "dashboard_assets"
VENDOR = ASSETS / "vendor"
MANIFEST = "VENDORED.md"
ROW = re.compile(
    r"^\| `(?P<file>[\w.]+)` \| \w+ \| (?P<version>[\d.]+) \| `[\w./]+` \| [\w.-]+"
    r" \| `(?P<hash>[0-9a-f]{64})` \|$",
    re.MULTILINE,
)
ROWS = {found["file"]: found["hash"] for found in ROW.finditer((VENDOR / MANIFEST).read_text())}


def test_manifest_lists_every_vendored_file() -> None:
    assert ROWS.keys() == {path.name for path in VENDOR.iterdir()} - {MANIFEST}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_vendored_file_has_the_hash_of_the_manifest(name: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == ROWS[name]


@pytest.mark.parametrize("name", ["preact", "htm", "uplot"])
def test_vendored_script_has_its_licence(name: str) -> None:
    assert {f"{name}.js", f"{name}.LICENSE"} <= ROWS.keys()


class Inline(HTMLParser):
    """Collects what the Content-Security-Policy would block."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(tag)
        self.found += [name for name in names if name == "style" or name.startswith("on")]


def test_page_has_no_inline_script_or_style() -> None:
    inline = Inline()
    inline.feed((ASSETS / "index.html").read_text(encoding="utf-8"))

    assert inline.found == []


@pytest.mark.parametrize(
    "path",
    sorted(path for path in ASSETS.rglob("*.js") if VENDOR not in path.parents),
    ids=lambda path: path.name,
)
def test_script_imports_only_files_of_the_page(path: Path) -> None:
    names = re.findall(r'^import .*?from "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)

    assert [name for name in names if not (path.parent / name).resolve().is_file()] == []
