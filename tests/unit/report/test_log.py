"""What a line of the log looks like."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from structlog.dev import ConsoleRenderer

from scheduler.__main__ import parse_arguments
from scheduler.report.log import console

SAY = """
import structlog
from scheduler.report import log
log.configure(as_json={as_json}, level={level!r})
said = structlog.get_logger("x")
said.info("Successfully scheduled pod a to node b", decision="d-1")
said.debug("binding waits", detail=True, pod="team/a")
said.debug("watch refused at start", kind="pods")
said.warning("binding failed")
"""


def said(*, as_json: bool = False, level: str = "info") -> list[str]:
    """The lines, from a process of its own: the setting is for a whole process."""
    ended = subprocess.run(
        [sys.executable, "-c", SAY.format(as_json=as_json, level=level)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout == ""
    return ended.stderr.splitlines()


@pytest.mark.contract("S2-10")
def test_line_has_utc_time_level_seed_words_and_keyed_facts() -> None:
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z \[info     \] "
        r"Successfully scheduled pod a to node b decision=d-1",
        said()[0],
    )


@pytest.mark.contract("S2-10")
def test_with_the_switch_for_it_a_line_is_one_json_object() -> None:
    line = json.loads(said(as_json=True)[0])

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("timestamp"))
    assert line == {
        "event": "Successfully scheduled pod a to node b",
        "level": "info",
        "decision": "d-1",
    }


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize(
    ("level", "levels"),
    [
        pytest.param("warning", ["warning"], id="warning"),
        pytest.param("info", ["info", "warning"], id="info"),
        pytest.param("detail", ["info", "detail", "warning"], id="detail"),
        pytest.param("debug", ["info", "detail", "debug", "warning"], id="debug"),
    ],
)
def test_level_detail_is_between_info_and_debug(
    level: str, levels: list[str], as_json: bool
) -> None:
    lines = said(level=level, as_json=as_json)
    found = [json.loads(line)["level"] if as_json else _level(line) for line in lines]

    assert found == levels


def _level(line: str) -> str:
    return line.partition("[")[2].partition("]")[0].strip()


@pytest.mark.parametrize(
    ("words", "level"),
    [
        pytest.param([], "info", id="default"),
        pytest.param(["--log-level", "detail"], "detail", id="detail"),
        pytest.param(["-v"], "debug", id="short"),
        pytest.param(["--verbose"], "debug", id="long"),
    ],
)
def test_scheduler_takes_the_level_of_its_log(words: list[str], level: str) -> None:
    assert parse_arguments(words).log_level == level


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({}, id="plain"),
        pytest.param({"pod": "a/b", "count": 2, "took_ms": 0.4, "reason": ""}, id="with-facts"),
        pytest.param({"reason": "0/1 nodes: 'x' is \"y\"", "is_new": True}, id="quoted"),
        pytest.param({"pods": ("a", "b"), "node": None}, id="other-types"),
        pytest.param({"exc_info": ValueError("x")}, id="with-an-exception"),
        pytest.param({"exception": "Traceback: x", "pod": "a/b"}, id="with-a-traceback"),
        pytest.param({"level": "detail", "pod": "a/b"}, id="detail"),
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
