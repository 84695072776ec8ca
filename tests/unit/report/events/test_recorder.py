"""How texts and times are written for people and for the API server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.model.timestamps import micro_time, second_time
from scheduler.report.events.recorder import event_name, truncated

MOMENT = datetime(2026, 11, 27, 10, 0, 5, 42, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        pytest.param("short", 10, "short", id="fits"),
        pytest.param("exactly 10", 10, "exactly 10", id="fits-exactly"),
        pytest.param("eleven char", 10, "eleven ...", id="cut"),
        pytest.param("ääääää", 10, "äää ...", id="counted-in-bytes"),
        pytest.param("aäääää", 10, "aää ...", id="never-half-a-character"),
    ],
)
def test_a_note_is_cut_to_bytes(text: str, limit: int, shown: str) -> None:
    assert truncated(text, limit) == shown
    assert len(truncated(text, limit).encode()) <= limit


def test_times_are_those_of_the_api() -> None:
    assert micro_time(MOMENT) == "2026-11-27T10:00:05.000042Z"
    assert second_time(MOMENT) == "2026-11-27T10:00:05Z"
    assert micro_time(MOMENT + timedelta(seconds=1)) > micro_time(MOMENT)


@pytest.mark.parametrize(
    "pod_name",
    [
        pytest.param("web-0", id="short"),
        pytest.param("a" * 253, id="as-long-as-allowed"),
        pytest.param("a" * 229 + "-" + "b" * 20, id="cut-behind-a-dash"),
        pytest.param("a" * 228 + ".-" + "b" * 20, id="cut-behind-dot-and-dash"),
    ],
)
def test_an_events_name_is_always_valid(pod_name: str) -> None:
    name = event_name(pod_name, "0123456789abcdef")

    assert len(name) <= 253
    assert name.endswith(".0123456789abcdef")
    assert all(label and label[0].isalnum() and label[-1].isalnum() for label in name.split("."))
