"""The files of a release: the changelog from changes/, and the version in every file.

    pyproject.toml ── the version; charts and image names say the same (a test compares them)
    changes/*.md ───> a section of CHANGELOG.md, and are removed

``python -m tools.release`` has the commands (``__main__.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.charts.copies import ROOT

KINDS: Final = ("added", "changed", "fixed", "removed")
CHANGELOG: Final = "CHANGELOG.md"
#: The heading of the changelog that stays first, with the way to what is not released yet.
UNRELEASED: Final = "## Unreleased"
_FRAGMENT: Final = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(-[0-9a-z.]+)?")
#: Our images in examples and in the demo, which have the version as their tag.
_IMAGE: Final = re.compile(r"\b(gpu-scheduler(?:-check)?:)\d[\w.-]*")
_WITH_IMAGES: Final = ("examples/*/*.yaml", "tools/demo/scenarios/*.yaml")
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
    """The changelog with a new version before the older ones, behind the section UNRELEASED."""
    if f"\n{UNRELEASED}\n" not in changelog:
        raise NotReleased(f"{CHANGELOG}: the section {UNRELEASED!r} is missing; add it")
    if re.search(rf"^## {re.escape(version)} ", changelog, re.MULTILINE):
        raise NotReleased(f"{CHANGELOG}: {version} is there already; say VERSION=...")
    head, heading, rest = changelog.partition(f"\n{UNRELEASED}\n")
    words, mark, older = rest.partition("\n## ")
    before = f"{head}{heading}{words}".rstrip()
    return f"{before}\n\n{new}" + (f"\n## {older}" if mark else "")


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


def with_images(root: Path = ROOT) -> list[Path]:
    """The files outside of the charts that name one of our images."""
    paths = (path for pattern in _WITH_IMAGES for path in sorted(root.glob(pattern)))
    return [path for path in paths if _IMAGE.search(path.read_text(encoding="utf-8"))]


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
    for path in with_images(root):
        text = path.read_text(encoding="utf-8")
        files[path] = _IMAGE.sub(lambda found: f"{found[1]}{version}", text)
    return files | dict.fromkeys(sources)
