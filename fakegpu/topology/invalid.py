"""Invalid user input: the place and the next step."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")
_AT = re.compile(r"(?P<problem>.*?)(?: - at `\$(?P<where>.*)`)?", re.DOTALL)


class Invalid(ValueError):
    """One line: the path in the document, and the problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


def convert(document: object, kind: type[T], path: str) -> T:
    """A part of a document as a struct; Invalid has the path of the mismatch."""
    try:
        return msgspec.convert(document, kind, strict=True, str_keys=False)
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        where, problem = (found["where"] or "", found["problem"]) if found else ("", str(error))
        raise Invalid((path + where).lstrip("."), problem[:1].lower() + problem[1:]) from error


def read_yaml(text: str, path: str) -> object:
    """The document of a text."""
    try:
        return msgspec.yaml.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Invalid(path, " ".join(str(error).split())) from error
