"""Reads a values.yaml with its comments: each value's path, description and schema.

It supports the style of our files only: block mappings indented by two spaces, and comments
directly above their key.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

_KEY: Final = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z][A-Za-z0-9_-]*):")
_COMMENT: Final = re.compile(r"^ *# ?(?P<text>.*)$")
_SCHEMA: Final = "@schema "
_DESCRIBES: Final = "-- "

Path_ = tuple[str, ...]


class BadValues(ValueError):
    """A values.yaml that violates the rules of this module; the text contains the place."""


class Value(NamedTuple):
    """One documented value: path, description and default."""

    path: Path_
    text: str
    default: Any
    schema: dict[str, Any]

    @property
    def name(self) -> str:
        """The path in the syntax of ``--set``."""
        return ".".join(self.path)


def read(path: Path) -> list[Value]:
    """Every documented value in the order of the file."""
    content = path.read_text(encoding="utf-8")
    defaults = yaml.safe_load(content) or {}
    found: list[Value] = []
    stack: list[str] = []
    comments: list[str] = []
    for line in content.splitlines():
        comment, key = _COMMENT.match(line), _KEY.match(line)
        if comment:
            comments.append(comment["text"])
            continue
        if key:
            stack = [*stack[: len(key["indent"]) // 2], key["key"]]
            text, schema = _said(comments, ".".join(stack))
            if text:
                where = tuple(stack)
                found.append(Value(where, text, _at(defaults, where), schema))
        comments = []
    _check(defaults, {value.path for value in found}, ())
    return found


def _said(comments: list[str], name: str) -> tuple[str, dict[str, Any]]:
    """Description and schema of a block of comments; empty if it describes no value."""
    words: list[str] = []
    schema: dict[str, Any] = {}
    for comment in comments:
        if comment.startswith(_SCHEMA):
            try:
                schema |= json.loads(comment.removeprefix(_SCHEMA))
            except ValueError as error:
                raise BadValues(f"{name}: @schema is no JSON: {error}") from error
        elif comment.startswith(_DESCRIBES):
            words = [comment.removeprefix(_DESCRIBES)]
        elif words:
            words.append(comment)
    return " ".join(words).strip(), schema


def _at(tree: Any, path: Path_) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _check(tree: Any, documented: set[Path_], at: Path_) -> None:
    """Every leaf is documented, itself or with a mapping above it."""
    for key, below in tree.items():
        where = (*at, key)
        if where in documented:
            continue
        if not isinstance(below, dict) or not below:
            raise BadValues(
                f"{'.'.join(where)}: describe it with a comment that begins with `# --`"
            )
        _check(below, documented, where)
