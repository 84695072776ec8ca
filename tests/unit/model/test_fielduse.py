"""Every field of a pod, as the API server's schema has them, is classified."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from scheduler.model.fielduse import GONE, TABLE, Use, unclassified
from scheduler.model.podfields import SpecFields, unsupported

SCHEMA: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parents[2] / "golden" / "podspec_fields.json").read_text(encoding="utf-8")
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


@pytest.mark.parametrize("source", sorted(SCHEMA["Volume"]))
def test_a_volume_is_refused_exactly_if_its_row_says_so(source: str) -> None:
    """No source of the real schema slips through for want of an attribute."""
    spec = msgspec.convert({"volumes": [{source: {}}]}, SpecFields)
    assert (unsupported(spec) != ()) == (TABLE["Volume"][source] is Use.UNSUPPORTED)
