"""Paths of this repository in pages and docstrings name files that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.unit.docs.sources import ROOT, python_files

#: The folders at the root whose files pages and docstrings name.
TOP: Final = frozenset(
    (
        *("ansible", "argocd", "bench", "changes", "charts", "cluster", "config", "docs"),
        *("examples", "fakegpu", "gpucheck", "gpuctl", "manifests", "requirements", "scheduler"),
        *("scripts", "tests", "tools", "webhook"),
    )
)
#: The section of docs/upgrade.md with the names of earlier builds.
FORMER: Final = "\n## Former names\n"
#: Code in one pair of backticks, or in the two pairs of a docstring.
CODE: Final = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+)\1(?!`)")
PATH: Final = re.compile(r"[\w.*-]+(?:/[\w.*{},-]*)+")
#: Paths of other repositories, and of an example that a reader writes.
EXCEPTED: Final = {
    "docs/contracts.md": {"webhook/cmd/main.go", "config/webhook/manifests.yaml"},
    "docs/plugins.md": {"scheduler/plugins/team_nodes.py"},
}


def named(text: str, folders: frozenset[str]) -> Iterator[str]:
    """Each path in the code spans of a text that begins with one of these folders."""
    for _, code in CODE.findall(text):
        for word in code.split():
            path = word.strip("()[],;:'\"").removeprefix("./")
            if PATH.fullmatch(path) and path.partition("/")[0] in folders:
                yield path


def exists(path: str, below: str = "") -> bool:
    """Whether a file, a folder, a module or a definition of a module has this path."""
    start = ROOT / below
    if "{" in path:
        head, _, rest = path.partition("{")
        words, _, tail = rest.partition("}")
        return all(exists(f"{head}{word}{tail}", below) for word in words.split(","))
    stem = path.rstrip("/")
    return any(
        any(start.glob(pattern))
        for pattern in (stem, f"{stem}.py", f"{stem.rpartition('.')[0] or stem}.py")
    )


PAGES: Final = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES)
def test_every_path_in_a_page_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").partition(FORMER)[0]

    assert {path for path in named(text, TOP) if not exists(path)} == EXCEPTED.get(page, set())


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        pytest.param("scheduler/loop.py", True, id="file"),
        pytest.param("scheduler/loop", True, id="module"),
        pytest.param("scheduler/framework/plugin.Plugin", True, id="definition"),
        pytest.param("cluster/rbac*.yaml", True, id="glob"),
        pytest.param("scheduler/{loop,app}.py", True, id="alternatives"),
        pytest.param("scheduler/{loop,gone}.py", False, id="missing alternative"),
        pytest.param("scheduler/gone/", False, id="missing folder"),
    ],
)
def test_a_path_is_resolved(path: str, is_there: bool) -> None:
    assert [*named(f"see `{path}`.", TOP)] == [path]
    assert exists(path) == is_there


def test_every_path_in_a_docstring_exists() -> None:
    """A docstring may leave out the top folder, as in a name that begins with ``state``."""
    wrong = []
    for file, path in python_files():
        top = file.partition("/")[0]
        inside = frozenset(one.name for one in (ROOT / top).iterdir() if one.is_dir())
        for text in _docstrings(path.read_text(encoding="utf-8")):
            wrong += [f"{file}: {one}" for one in named(text, TOP) if not exists(one)]
            wrong += [f"{file}: {one}" for one in named(text, inside - TOP) if not exists(one, top)]

    assert wrong == []


def _docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and (text := ast.get_docstring(node)):
            yield text
