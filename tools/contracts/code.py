"""The code of a test: its function, and the definitions in tests/ that it uses.

These are module-level names, fixtures, and names imported from ``tests``, recursively. Comments,
docstrings and assertion messages are excluded, because no run depends on them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

TESTS: Final = "tests"
CONFTEST: Final = "conftest.py"
_PYTEST_NODE: Final = "::"

#: The code of a test as text, by its node id in pytest.
CodeOf = Callable[[str], str]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Module(NamedTuple):
    """One file: its module-level definitions, and what it imports as (module, name there)."""

    path: Path
    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, tuple[str, str]]


class _Piece(NamedTuple):
    """The code of one name, and what it uses as (module, name there)."""

    text: str
    uses: tuple[tuple[_Module, str], ...]


class TestCode:
    """Answers for the tests below one folder; files are parsed once."""

    __test__ = False  # not a class of tests

    def __init__(self, root: Path) -> None:
        self._root = root
        self._module = lru_cache(maxsize=None)(self._parse)
        self._pieces: dict[tuple[Path, str, str], _Piece] = {}

    def __call__(self, node_id: str) -> str:
        path, *names = node_id.partition("[")[0].split(_PYTEST_NODE)
        module = self._module(self._root / path)
        seen: set[tuple[Path, str]] = set()
        parts: list[str] = []
        waiting = [(module, names[0])]
        waiting += [(module, "pytestmark")]
        within = names[-1] if len(names) > 1 else ""
        while waiting:
            where, name = waiting.pop()
            if (where.path, name) in seen:
                continue
            seen.add((where.path, name))
            only = within if where is module and name == names[0] else ""
            piece = self._piece(where, name, only)
            parts.append(piece.text)
            waiting += piece.uses
        return "\n".join(parts)

    def _piece(self, where: _Module, name: str, only: str) -> _Piece:
        """One name's code; kept, because hundreds of tests use the same fixtures and builders."""
        key = (where.path, name, only)
        if key not in self._pieces:
            codes = [_Stripped(only).visit(_copy(one)) for one in where.definitions.get(name, ())]
            uses = {used: None for code in codes for used in _used(code)}
            found = {
                (one.path, what): (one, what)
                for used in uses
                for one, what in self._resolve(where, used)
            }
            self._pieces[key] = _Piece("\n".join(map(_text, codes)), tuple(found.values()))
        return self._pieces[key]

    def _resolve(self, module: _Module, name: str) -> Iterator[tuple[_Module, str]]:
        """Where a name is defined: here, in an imported file of tests/, or as a fixture."""
        head, _, attribute = name.partition(".")
        if head in module.definitions:
            yield module, head
        elif head in module.imports:
            source, original = module.imports[head]
            if (file := self._file(f"{source}.{original}")) is not None and attribute:
                yield self._module(file), attribute
            elif (file := self._file(source)) is not None:
                yield self._module(file), original
        else:
            for folder in module.path.parents:
                if folder == self._root:
                    break
                if (folder / CONFTEST).exists():
                    yield self._module(folder / CONFTEST), head

    def _file(self, dotted: str) -> Path | None:
        if dotted.partition(".")[0] != TESTS:
            return None
        file = self._root.joinpath(*dotted.split(".")).with_suffix(".py")
        return file if file.exists() else None

    def _parse(self, path: Path) -> _Module:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        definitions: dict[str, list[ast.stmt]] = {}
        imports: dict[str, tuple[str, str]] = {}
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.module:
                for alias in statement.names:
                    imports[alias.asname or alias.name] = (statement.module, alias.name)
            for name in _defined(statement):
                definitions.setdefault(name, []).append(statement)
        return _Module(path, definitions, imports)


def _defined(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _copy(statement: ast.stmt) -> ast.stmt:
    """A copy, because the parsed tree is reused."""
    return ast.parse(ast.unparse(statement)).body[0]


class _Stripped(ast.NodeTransformer):
    """Removes code that no run depends on, and all test methods of a class but one."""

    def __init__(self, only_method: str) -> None:
        self._only_method = only_method

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if self._only_method:
            node.body = [
                one
                for one in node.body
                if not isinstance(one, _Function)
                or one.name == self._only_method
                or not one.name.startswith("test")
            ]
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return ast.Pass()
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.msg = None
        return self.generic_visit(node)


def _text(code: ast.AST) -> str:
    """Code as Python writes it, and each string as it is at run time."""
    strings = [
        one.value if isinstance(one.value, str) else one.value.decode("utf-8", "replace")
        for one in ast.walk(code)
        if isinstance(one, ast.Constant) and isinstance(one.value, str | bytes)
    ]
    return "\n".join([ast.unparse(ast.fix_missing_locations(code)), *strings])


def _used(code: ast.AST) -> Iterator[str]:
    """Names that code reads, with one attribute; the parameters of a function may be fixtures."""
    for node in ast.walk(code):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
