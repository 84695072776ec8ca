"""Writes the files of a release: the changelog from changes/, and the version in every file.

    pyproject.toml ── the version; the charts' files say the same (a test compares them)
    changes/*.md ───> a section of CHANGELOG.md, and are removed

``python -m tools.release notes [VERSION] [--dry-run]`` and ``python -m tools.release package`` (the
charts, into dist/). It prints the commands for the tag and the push, and does not run them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tools.charts.copies import CHARTS, ROOT
from tools.charts.helm import HelmFailed, helm

KINDS: Final = ("added", "changed", "fixed", "removed")
CHANGELOG: Final = "CHANGELOG.md"
DIST: Final = ROOT / "dist"
_FRAGMENT: Final = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(-[0-9a-z.]+)?")
#: The pattern of the version in each file.
_PLACES: Final = {
    "pyproject.toml": (re.compile(r'^(version = )"[^"]+"$', re.MULTILINE),),
    "Chart.yaml": (
        re.compile(r"^(version: )\S+$", re.MULTILINE),
        re.compile(r"^(appVersion: )\S+$", re.MULTILINE),
    ),
}


class NotReleased(Exception):
    """The release is blocked; the text is one line with the fix."""


def kind_of(name: str) -> str:
    """The kind of a fragment, by its file name."""
    found = _FRAGMENT.fullmatch(name)
    if found is None:
        raise NotReleased(f"changes/{name}: call it <short-name>.<{'|'.join(KINDS)}>.md")
    return found[1]


def section(version: str, day: str, fragments: Mapping[str, str]) -> str:
    """The changelog section of a version, ordered by kind and name."""
    lines = [f"## {version} ({day})"]
    for kind in KINDS:
        texts = [text for name, text in sorted(fragments.items()) if kind_of(name) == kind]
        if texts:
            lines += ["", f"### {kind.capitalize()}", ""]
            lines += [f"- {' '.join(text.split())}" for text in texts]
    return "\n".join(lines) + "\n"


def with_section(changelog: str, version: str, new: str) -> str:
    """The changelog with a new version before the older ones."""
    if re.search(rf"^## {re.escape(version)} ", changelog, re.MULTILINE):
        raise NotReleased(f"{CHANGELOG}: {version} is there already; say VERSION=...")
    head, mark, rest = changelog.partition("\n## ")
    return f"{head.rstrip()}\n\n{new}" + (f"\n## {rest}" if mark else "")


def with_version(name: str, text: str, version: str) -> str:
    """The content of a file with another version."""
    quote = '"' if name == "pyproject.toml" else ""
    for place in _PLACES[name]:
        text, count = place.subn(lambda found: f"{found[1]}{quote}{version}{quote}", text, count=1)
        if count != 1:
            raise NotReleased(f"{name}: no line that says a version ({place.pattern})")
    return text


def present(root: Path = ROOT) -> str:
    """The version in pyproject.toml."""
    found = re.search(r'^version = "([^"]+)"$', (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert found, "pyproject.toml says a version"
    return found[1]


def planned(root: Path, version: str, day: str) -> dict[Path, str | None]:
    """The new content of each file, None for a removed file."""
    if _VERSION.fullmatch(version) is None:
        raise NotReleased(f"{version}: a version is like 1.2.3 or 1.2.3-rc.1")
    sources = [path for path in sorted((root / "changes").glob("*.md")) if path.stem != "README"]
    if not sources:
        raise NotReleased("changes/: nothing has changed since the last release")
    fragments = {path.name: path.read_text(encoding="utf-8") for path in sources}
    changelog = root / CHANGELOG
    new = section(version, day, fragments)
    files: dict[Path, str | None] = {
        changelog: with_section(changelog.read_text(encoding="utf-8"), version, new)
    }
    for path in (root / "pyproject.toml", *sorted(root.glob("charts/*/Chart.yaml"))):
        files[path] = with_version(path.name, path.read_text(encoding="utf-8"), version)
    return files | dict.fromkeys(sources)


def package() -> list[str]:
    """Package the charts into dist/; returns helm's output for each."""
    DIST.mkdir(exist_ok=True)
    return [
        helm("package", path.parent, "-d", DIST) for path in sorted(CHARTS.glob("*/Chart.yaml"))
    ]


def _notes(version: str, *, dry_run: bool) -> None:
    files = planned(ROOT, version, f"{datetime.now(UTC):%Y-%m-%d}")
    for path, text in files.items():
        name = path.relative_to(ROOT)
        if text is None:
            print(f"remove {name}")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"write  {name}")
        if not dry_run:
            path.unlink() if text is None else path.write_text(text, encoding="utf-8")
    new = files[ROOT / CHANGELOG] or ""
    print("\n" + new.partition("\n## ")[2].partition("\n## ")[0])
    print(f'then: git commit -am "Release {version}" && git tag v{version}')


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; exit status 1 with one line if it is blocked."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    notes = commands.add_parser("notes", help="changelog and versions")
    notes.add_argument("version", nargs="?", default="")
    notes.add_argument("--dry-run", action="store_true")
    commands.add_parser("package", help="helm packages of the charts in dist/")
    commands.add_parser("version", help="say the present version")
    told = parser.parse_args(words)
    try:
        if told.command == "notes":
            _notes(told.version or present(), dry_run=told.dry_run)
        elif told.command == "package":
            print("".join(package()), end="")
        else:
            print(present())
    except (NotReleased, HelmFailed) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
