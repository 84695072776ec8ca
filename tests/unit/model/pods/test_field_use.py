"""Every field of a pod, as the API server's schema has them, is classified."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from scheduler.model.pods.pod_fields import SpecFields, unsupported
from tests.pod_field_use import GONE, TABLE, Use, unclassified

ROOT = Path(__file__).parents[4]
SCHEMA: dict[str, dict[str, str]] = json.loads(
    (ROOT / "gpuctl/simulate/validation/api_fields.json").read_text(encoding="utf-8")
)


def test_every_property_of_the_servers_schema_is_classified() -> None:
    """A field of a new API version must be judged before this scheduler ignores it."""
    assert len(SCHEMA["PodSpec"]) > 40
    assert unclassified(SCHEMA) == []


@pytest.mark.parametrize(
    ("name", "prop"), [("PodSpec", "futureField"), ("Volume", "futureSource"), ("EnvVar", "future")]
)
def test_a_new_property_would_be_noticed(name: str, prop: str) -> None:
    """The check above can fail."""
    newer = SCHEMA | {name: SCHEMA[name] | {prop: ""}}
    assert unclassified(newer) == [f"{name}.{prop}"]


def test_no_row_is_about_a_field_that_does_not_exist() -> None:
    """A typing mistake in the table would otherwise hide the real field's absence."""
    stale = {(name, prop) for name, rows in TABLE.items() for prop in rows if name in SCHEMA}
    stale -= {(name, prop) for name, props in SCHEMA.items() for prop in props}
    assert stale == set(GONE)
    assert set(TABLE) <= set(SCHEMA)


ROWS = [(name, prop) for name, rows in TABLE.items() for prop in rows if name in SCHEMA]
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("scheduler", "webhook")
    for path in sorted((ROOT / folder).rglob("*.py"))
)


def is_named(prop: str) -> bool:
    """In code, as an attribute or as a key of JSON."""
    attribute = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", prop).lower()
    return re.search(rf"\b{attribute}\b|\"{prop}\"", SOURCES) is not None


@pytest.mark.parametrize(
    ("name", "prop"), [row for row in ROWS if TABLE[row[0]][row[1]] is Use.USED]
)
def test_used_fields_are_named_in_the_code(name: str, prop: str) -> None:
    assert is_named(prop), f"{name}.{prop} is read nowhere"


def test_unread_fields_are_absent_from_the_code_and_listed_in_docs() -> None:
    unread = [prop for name, prop in ROWS if TABLE[name][prop] is Use.UNREAD]

    assert unread == []
    assert not any(is_named(prop) for prop in unread)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"`{prop}`" in readme for prop in unread)


@pytest.mark.parametrize("source", sorted(SCHEMA["Volume"]))
def test_a_volume_is_refused_exactly_if_its_row_says_so(source: str) -> None:
    """No source of the real schema slips through for want of an attribute."""
    spec = msgspec.convert({"volumes": [{source: "" if source == "name" else {}}]}, SpecFields)
    assert (unsupported(spec) != ()) == (TABLE["Volume"][source] is Use.UNSUPPORTED)
