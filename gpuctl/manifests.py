"""Files -> Kubernetes objects, each with the words that say where it stands.

YAML with several documents, JSON, and lists (``kubectl get -o yaml``) are read alike; ``-`` is
the standard input. Whatever is wrong becomes a Mistake: one line that says where and what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from gpuctl.strict_yaml import Loader
from scheduler.model.limits import DEPTH_OF_A_FILE_MAX

Raw = dict[str, Any]

STDIN: Final = "-"


class InputError(Exception):
    """Something in the input that its author has to change; the text is one line."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One object and where it was found: ``FILE:document N``."""

    place: str
    raw: Raw

    @property
    def kind(self) -> str:
        """The object's kind; empty where it has none."""
        return text_of(self.raw.get("kind"))

    @property
    def api_version(self) -> str:
        """The object's apiVersion; empty where it has none."""
        return text_of(self.raw.get("apiVersion"))

    @property
    def metadata(self) -> Raw:
        """The object's metadata; empty where it has none."""
        return object_of(self.raw.get("metadata"))

    @property
    def spec(self) -> Raw:
        """The object's spec; empty where it has none."""
        return object_of(self.raw.get("spec"))

    @property
    def name(self) -> str:
        """The object's name, or what its name will begin with."""
        return text_of(self.metadata.get("name")) or text_of(self.metadata.get("generateName"))

    def mistake(self, path: str, problem: str) -> InputError:
        """A mistake in this object, at a path inside it."""
        named = f" ({self.kind} {self.name})" if self.kind and self.name else ""
        return InputError(f"{self.place}{named}: {path}: {problem}")


def text_of(value: object) -> str:
    """The value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> Raw:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def read(names: list[str], on_document: Callable[[], None] = lambda: None) -> list[Document]:
    """Every object in these files, in their order; ``on_document`` is called after each one."""
    found: list[Document] = []
    for name in names:
        shown = "stdin" if name == STDIN else name
        for number, content in enumerate(_contents(shown, _bytes(name)), start=1):
            on_document()
            if content is not None:  # a separator with nothing behind it
                found += _objects(f"{shown}:document {number}", content)
    return found


def _bytes(name: str) -> bytes:
    if name == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except IsADirectoryError:
        raise InputError(f"{name}: is a folder; name the files in it") from None
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None


def _contents(shown: str, content: bytes) -> Iterator[Any]:
    """The documents of one file; JSON, which dumps of whole clusters are, takes the fast way."""
    number = 0
    try:
        if content.lstrip()[:1] == b"{":
            try:
                yield msgspec.json.decode(content)
            except (msgspec.DecodeError, UnicodeError):
                pass  # flow style YAML begins like that too
            else:
                return
        for document in yaml.load_all(content, Loader):
            number += 1
            yield document
    except yaml.YAMLError as error:
        raise InputError(f"{shown}:document {number + 1}: {_yaml_problem(error)}") from None
    except RecursionError:
        raise _too_deep(f"{shown}:document {number + 1}") from None


def _too_deep(place: str) -> InputError:
    return InputError(f"{place}: is nested deeper than {DEPTH_OF_A_FILE_MAX} levels")


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line = error.problem_mark.line + 1
        return f"line {line} of the file is not valid YAML: {error.problem or error.context}"
    return f"not valid YAML: {' '.join(str(error).split())}"


def _objects(place: str, content: object) -> list[Document]:
    if not isinstance(content, dict):
        word = type(content).__name__
        raise InputError(f"{place}: expected an object with apiVersion and kind, found a {word}")
    if _is_deeper(content, DEPTH_OF_A_FILE_MAX):
        raise _too_deep(place)
    document = Document(place=place, raw=without_nulls(content))
    if not document.kind:
        raise document.mistake("kind", "is missing; write for example kind: Pod")
    items = document.raw.get("items")
    if document.kind.endswith("List") and isinstance(items, list):
        return [
            found
            for number, item in enumerate(items, start=1)
            for found in _objects(f"{place}, item {number}", _typed(item, document))
        ]
    return [document]


def _typed(item: object, of: Document) -> object:
    """An item as an object of its own: those of a PodList need not say that they are Pods."""
    if of.kind == "List" or not isinstance(item, dict):
        return item
    return {"apiVersion": of.api_version, "kind": of.kind.removesuffix("List"), **item}


def _is_deeper(value: object, most: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return most == 0 or any(_is_deeper(part, most - 1) for part in parts)


def spelled(value: object) -> str:
    """A value of a file in a message: a number of thousands of digits cannot be written out."""
    if isinstance(value, int) and abs(value) > 10**40:
        return "a number of more than 40 digits"
    return repr(value)[:80]


def without_nulls(value: Any) -> Any:
    """The value without members that are null: the API server reads them as not written."""
    if isinstance(value, dict):
        return {str(k): without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
