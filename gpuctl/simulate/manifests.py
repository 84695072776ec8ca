"""Reads Kubernetes objects from files; each object carries its place for error messages.

The input is YAML with one or more documents, JSON, or a list (``kubectl get -o yaml``); ``-`` is
the standard input. An invalid input is an InputError: one line with the place and the fix.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gpuctl.input_error import STDIN, InputError
from gpuctl.simulate.strict_yaml import Loader, line_of
from scheduler.model.limits import DEPTH_OF_A_FILE_MAX

Raw = dict[str, Any]


class Source(msgspec.Struct, frozen=True):
    """The file that has an object, and where it is there."""

    content: bytes
    number: int
    path: tuple[str | int, ...] = ()


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One object and its place: ``FILE: document N``."""

    place: str
    raw: Raw
    source: Source | None = None

    @property
    def kind(self) -> str:
        """The object's kind, or empty."""
        return text_of(self.raw.get("kind"))

    @property
    def api_version(self) -> str:
        """The object's apiVersion, or empty."""
        return text_of(self.raw.get("apiVersion"))

    @property
    def metadata(self) -> Raw:
        """The object's metadata, or empty."""
        return object_of(self.raw.get("metadata"))

    @property
    def spec(self) -> Raw:
        """The object's spec, or empty."""
        return object_of(self.raw.get("spec"))

    @property
    def name(self) -> str:
        """The object's name, or its generateName."""
        return text_of(self.metadata.get("name")) or text_of(self.metadata.get("generateName"))

    def line(self, path: tuple[str | int, ...]) -> int | None:
        """The line of a field in the file, counted from 1, if it is known."""
        source = self.source
        if source is None:
            return None
        return line_of(source.content, source.number, (*source.path, *path))

    def error(self, path: str, problem: str) -> InputError:
        """An error at a path inside this object."""
        named = f" ({self.kind} {self.name})" if self.kind and self.name else ""
        return InputError(f"{self.place}{named}: {path}: {problem}")


def text_of(value: object) -> str:
    """The value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> Raw:
    """The value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def read(names: list[str], on_document: Callable[[], None] = lambda: None) -> list[Document]:
    """Every object in these files, in order; ``on_document`` is called for each YAML document."""
    documents: list[Document] = []
    for name in names:
        shown = "stdin" if name == STDIN else name
        file = _bytes(name)
        for number, content in enumerate(_contents(shown, file), start=1):
            on_document()
            if content is not None:  # None: an empty document between two separators
                source = Source(file, number)
                documents += _objects(f"{shown}: document {number}", content, source)
    return documents


def _bytes(name: str) -> bytes:
    if name == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except IsADirectoryError:
        raise InputError(f"{name}: is a directory; name the files in it") from None
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None


def _contents(shown: str, content: bytes) -> Iterator[Any]:
    """The documents of one file; JSON, the format of large dumps, is decoded by msgspec."""
    number = 0
    try:
        if content.lstrip()[:1] == b"{":
            try:
                yield msgspec.json.decode(content)
            except (msgspec.DecodeError, UnicodeError):
                pass  # YAML in flow style begins with a brace as well
            else:
                return
        for document in yaml.load_all(content, Loader):
            number += 1
            yield document
    except yaml.YAMLError as error:
        raise InputError(f"{shown}: document {number + 1}: {_yaml_problem(error)}") from None
    except RecursionError:
        raise _too_deep(f"{shown}: document {number + 1}") from None


def _too_deep(place: str) -> InputError:
    return InputError(f"{place}: is nested deeper than {DEPTH_OF_A_FILE_MAX} levels")


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line = error.problem_mark.line + 1
        return f"line {line} of the file is not valid YAML: {error.problem or error.context}"
    return f"not valid YAML: {' '.join(str(error).split())}"


def _objects(place: str, content: object, source: Source) -> list[Document]:
    if not isinstance(content, dict):
        word = type(content).__name__
        raise InputError(f"{place}: expected an object with apiVersion and kind, found a {word}")
    if _is_deeper(content, DEPTH_OF_A_FILE_MAX):
        raise _too_deep(place)
    document = Document(place=place, raw=without_nulls(content), source=source)
    if not document.kind:
        raise document.error("kind", "is missing; write for example kind: Pod")
    items = document.raw.get("items")
    if document.kind.endswith("List") and isinstance(items, list):
        return [
            document_of_item
            for number, item in enumerate(items, start=1)
            for document_of_item in _objects(
                f"{place}, item {number}",
                _typed(item, document),
                Source(source.content, source.number, (*source.path, "items", number - 1)),
            )
        ]
    return [document]


def _typed(item: object, parent: Document) -> object:
    """The item with apiVersion and kind, which the items of a PodList may omit."""
    if parent.kind == "List" or not isinstance(item, dict):
        return item
    return {"apiVersion": parent.api_version, "kind": parent.kind.removesuffix("List"), **item}


def _is_deeper(value: object, most: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return most == 0 or any(_is_deeper(part, most - 1) for part in parts)


def shown_value(value: object) -> str:
    """The value for an error message; Python cannot print a number of thousands of digits."""
    if isinstance(value, int) and abs(value) > 10**40:
        return "a number of more than 40 digits"
    return repr(value)[:80]


def without_nulls(value: Any) -> Any:
    """The value without null members, which the API server treats as absent."""
    if isinstance(value, dict):
        return {str(k): without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
