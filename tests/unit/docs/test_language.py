"""Words that this repository does not use, in texts and in names of tests, modules and classes."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

import pytest

from tests.unit.docs.sources import python_files, text_files

#: A sentence has a component as its subject and an API term as its object.
REFUSED: Final = re.compile(r"\b(whoever|nobody|somebody|anew)\b", re.IGNORECASE)
#: Occurrences that stay: this rule itself and its text for contributors.
EXCEPTED: Final = {"tests/unit/docs/test_language.py": 14, "CONTRIBUTING.md": 5}
TEST_NAME_MAX: Final = 60
PRONOUNS: Final = {
    *("whoever", "nobody", "nobodys", "somebody", "somebodys", "anybody", "anybodys", "anew"),
    *("everybody", "everybodys", "who", "whom", "he", "him", "his", "himself"),
}
#: Names that say nothing about the content, or describe a component as a person.
MODULES: Final = {
    *("common", "data", "desk", "helper", "helpers", "info", "keeper", "manager", "meta", "misc"),
    *("stuff", "things", "util", "utils", "witness"),
}
CLASSES: Final = {
    *("Asker", "Common", "Data", "Desk", "Helper", "Helpers", "Info", "Keeper", "Manager", "Meta"),
    *("Misc", "Nobody", "Person", "Said", "Somebody", "Told", "Util", "Utils", "Witness"),
}
#: ``Meta`` may be the part of ObjectMeta that a decoder reads.
OBJECT_META: Final = {
    *("annotations", "creation_timestamp", "deletion_timestamp", "deletion_grace_period_seconds"),
    *("finalizers", "generate_name", "generation", "labels", "managed_fields", "name", "namespace"),
    *("owner_references", "resource_version", "uid", "continue_", "remaining_item_count"),
}


def test_texts_have_no_refused_words() -> None:
    counts = {file: len(REFUSED.findall(text)) for file, text in text_files()}

    assert {file: n for file, n in counts.items() if n != EXCEPTED.get(file, 0)} == {}


@pytest.mark.parametrize("text", ["Whoever leads", "# nobody else", "made anew", "SOMEBODY"])
def test_refused_words_are_found(text: str) -> None:
    assert REFUSED.search(text)


def test_test_names_are_short_and_have_no_pronouns() -> None:
    wrong = {
        f"{file}::{name}"
        for file, name in _test_names()
        if len(name.removeprefix("test_")) > TEST_NAME_MAX or PRONOUNS & {*name.split("_")}
    }

    assert wrong == set()


@cache
def _definitions() -> list[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each class and function of ours with its file."""
    return [
        (file, node)
        for file, path in python_files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _test_names() -> list[tuple[str, str]]:
    return [
        (file, node.name)
        for file, node in _definitions()
        if not isinstance(node, ast.ClassDef) and "/test_" in file and node.name.startswith("test_")
    ]


def test_module_names_say_their_content() -> None:
    assert [file for file, path in python_files() if path.stem.strip("_").lower() in MODULES] == []


def test_class_names_are_technical_nouns() -> None:
    wrong = {
        f"{file}::{node.name}"
        for file, node in _definitions()
        if isinstance(node, ast.ClassDef)
        and node.name.strip("_") in CLASSES
        and not _is_object_meta(node)
    }

    assert wrong == set()


def _is_object_meta(node: ast.ClassDef) -> bool:
    fields = {
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    return node.name.strip("_") == "Meta" and fields <= OBJECT_META
