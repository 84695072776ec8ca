"""What a line of the log looks like."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

SAY = """
import structlog
from scheduler.report import log
log.configure(as_json={as_json})
structlog.get_logger("x").info("Successfully scheduled pod a to node b", decision="d-1")
"""


def said(*, as_json: bool) -> str:
    """The line, from a process of its own: the setting is for a whole process."""
    ended = subprocess.run(
        [sys.executable, "-c", SAY.format(as_json=as_json)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout == ""
    return ended.stderr


@pytest.mark.contract("S2-10")
def test_line_has_utc_time_level_seed_words_and_keyed_facts() -> None:
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z \[info     \] "
        r"Successfully scheduled pod a to node b decision=d-1\n",
        said(as_json=False),
    )


@pytest.mark.contract("S2-10")
def test_with_the_switch_for_it_a_line_is_one_json_object() -> None:
    line = json.loads(said(as_json=True))

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("timestamp"))
    assert line == {
        "event": "Successfully scheduled pod a to node b",
        "level": "info",
        "decision": "d-1",
    }
