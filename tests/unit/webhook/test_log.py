"""The webhook's log lines."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.dev import ConsoleRenderer

from webhook.log import console


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({}, id="plain"),
        pytest.param({"pod": "a/b", "count": 2}, id="with-facts"),
        pytest.param({"exc_info": ValueError("x")}, id="with-an-exception"),
    ],
)
def test_a_line_looks_as_structlog_writes_it(facts: dict[str, Any]) -> None:
    """Every line of the log has one format."""
    line = {"event": "Reviewing pod: a/b", "level": "info", "timestamp": "2026-01-01T00:00:00Z"}
    general = ConsoleRenderer(colors=False, pad_event_to=0)

    assert (
        console(None, "", {**line, **facts}).splitlines()[0]
        == (general(None, "", {**line, **facts}).splitlines()[0])
    )
