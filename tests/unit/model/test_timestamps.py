"""Timestamps of the API as seconds, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.timestamps import epoch, rfc3339


@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_seconds_survive_the_way_to_text_and_back(seconds: int) -> None:
    assert epoch(rfc3339(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("2026-11-27T10:00:00.123456Z", 1795773600.123456, id="micro-time"),
        pytest.param("2026-11-27T10:00:00.123456789Z", 1795773600.123456, id="nanoseconds"),
        pytest.param("2026-11-27T00:00:00-05:30", 1795757400.0, id="offset"),
        pytest.param("0001-01-01T00:00:00Z", -62135596800.0, id="zero-of-go"),
        pytest.param("2026-13-01T00:00:00Z", None, id="month-13"),
        pytest.param("2026-02-29T00:00:00Z", None, id="no-leap-year"),
        pytest.param("2026-11-27T10:00:60Z", None, id="second-60"),
        pytest.param("2026-11-27", None, id="date"),
        pytest.param("2026-11-27T10:00:00", None, id="no-zone"),
        pytest.param("2026-W48-5T10:00:00Z", None, id="week-date"),
        pytest.param("\uff12026-11-27T10:00:00Z", None, id="wide-digit"),
    ],
)
def test_only_what_the_api_writes_is_read(text: str, seconds: float | None) -> None:
    """Other forms of ISO 8601 are no timestamps of the API."""
    assert epoch(text) == seconds


def test_moments_outside_the_format_become_its_bounds() -> None:
    """A deadline in a hand-written object may lie anywhere."""
    assert rfc3339(1e15) == "9999-12-31T23:59:59Z"
    assert rfc3339(-1e15) == "0001-01-01T00:00:00Z"
