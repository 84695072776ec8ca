"""The repository's own texts, for the tests that read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
#: Every folder with Python code.
CODE: Final = (
    "bench",
    "fakegpu",
    "gpucheck",
    "gpuctl",
    "scheduler",
    "tests",
    "tools",
    "webhook",
)
_FOLDERS: Final = (
    *CODE,
    ".ci",
    ".github",
    "ansible",
    "argocd",
    "changes",
    "charts",
    "cluster",
    "config",
    "docs",
    "examples",
    "manifests",
    "requirements",
    "scripts",
)
_AT_ROOT: Final = (
    ".importlinter",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "Makefile",
    "README.md",
    "generate-webhook-certs.sh",
    "pyproject.toml",
)
#: Output of other programs, which is compared byte by byte, and data.
_FOREIGN: Final = ("tests/golden/",)
_BINARY: Final = frozenset({".pyc", ".png", ".so", ".gz", ".tgz", ".tar"})


def python_files() -> Iterator[tuple[str, Path]]:
    """Each Python file of ours, with its path below the root."""
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path


def text_files() -> Iterator[tuple[str, str]]:
    """Each text of ours by its path: code, documents, charts and scripts."""
    below = (path for folder in _FOLDERS for path in sorted((ROOT / folder).rglob("*")))
    for path in (*below, *(ROOT / name for name in _AT_ROOT)):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and path.suffix not in _BINARY and not name.startswith(_FOREIGN):
            yield name, path.read_text(encoding="utf-8")
