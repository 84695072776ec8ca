"""A fast YAML writer for plain documents: a thousand nodes' topologies are written at once.

The general writer takes five milliseconds for eight GPUs, this one a tenth of that. It supports
maps with text keys, lists, texts, whole numbers and booleans; an ambiguous text is quoted.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

#: Begins with a letter and contains no special character of YAML.
_PLAIN: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9 ._/+-]*[A-Za-z0-9._/+-])?")
_WORDS: Final = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


def dump(document: dict[str, Any]) -> str:
    """The document as text."""
    lines: list[str] = []
    _map(document, "", lines)
    return "\n".join(lines) + "\n"


def _map(value: dict[str, Any], indent: str, lines: list[str]) -> None:
    for key, inner in value.items():
        _entry(f"{indent}{_scalar(key)}:", inner, indent, lines)


def _entry(head: str, value: Any, indent: str, lines: list[str]) -> None:
    if isinstance(value, dict) and value:
        lines.append(head)
        _map(value, indent + "  ", lines)
    elif isinstance(value, list | tuple) and value:
        lines.append(head)
        for one in value:
            _item(one, indent, lines)
    else:
        lines.append(f"{head} {_scalar(value)}")


def _item(value: Any, indent: str, lines: list[str]) -> None:
    if not (isinstance(value, dict) and value):
        lines.append(f"{indent}- {_scalar(value)}")
        return
    first = len(lines)
    _map(value, indent + "  ", lines)
    lines[first] = f"{indent}- {lines[first][len(indent) + 2 :]}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return msgspec.json.encode(value).decode()
