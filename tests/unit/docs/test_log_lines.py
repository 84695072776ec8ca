"""A log line is a constant event name with keys; lines of the seed systems have values in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.unit.docs.sources import ROOT, python_files

LEVELS: Final = {"debug", "info", "warning", "error", "critical", "exception"}
#: Lines whose text a seed contract has, by file.
SEED_LINES: Final = {
    "fakegpu/agent/app.py": 2,
    "fakegpu/controller/app.py": 2,
    "fakegpu/process.py": 2,
    "fakegpu/server.py": 1,
    "scheduler/report/schedule_result.py": 1,
    "webhook/app.py": 1,
    "webhook/handler.py": 2,
}


#: The lines of a decision have tables of their own in docs/logs.md.
OF_DECISIONS: Final = {"Unable to schedule pod", "binding failed", "placement dropped"}
_ROW: Final = re.compile(r"\| `([^`]+)` \| (scheduler|webhook) \| (\w+) \| ([^|]*) \|")


def calls_of_loggers(source: str) -> Iterator[tuple[str, ast.Call]]:
    """Each call of a logger, with the level of its line."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and ast.unparse(node.func.value).rpartition(".")[2].lower().strip("_")
            in ("log", "logger")
        ):
            is_detail = any(one.arg == "detail" for one in node.keywords)
            level = "detail" if is_detail else node.func.attr.replace("exception", "error")
            yield level, node


def computed_events(source: str) -> list[int]:
    """The lines of calls of a logger whose event name is no constant."""
    return [
        call.lineno
        for _, call in calls_of_loggers(source)
        if not (call.args and _is_constant(call.args[0]))
    ]


def _is_constant(event: ast.expr) -> bool:
    if isinstance(event, ast.IfExp):
        return _is_constant(event.body) and _is_constant(event.orelse)
    return isinstance(event, ast.Constant)


def test_event_names_in_the_log_are_constant() -> None:
    counts = {
        file: len(computed_events(path.read_text(encoding="utf-8")))
        for file, path in python_files()
        if not file.startswith("tests/")
    }

    assert {file: n for file, n in counts.items() if n} == SEED_LINES


@pytest.mark.parametrize(
    ("source", "count"),
    [
        pytest.param('log.info("node added", node=name)', 0, id="constant"),
        pytest.param('log.info("leading" if leads else "standing by")', 0, id="two-constants"),
        pytest.param('_log.warning(f"node {name} added")', 1, id="f-string"),
        pytest.param("self._log.error(text)", 1, id="variable"),
        pytest.param("result.info(text)", 0, id="no-logger"),
    ],
)
def test_computed_event_name_is_found(source: str, count: int) -> None:
    assert len(computed_events(source)) == count


def test_page_of_log_lines_has_every_event_with_level_and_keys() -> None:
    in_code = set()
    for file, path in python_files():
        program = file.partition("/")[0]
        if program not in ("scheduler", "webhook"):
            continue
        for level, call in calls_of_loggers(path.read_text(encoding="utf-8")):
            event = call.args[0]
            if isinstance(event, ast.Constant) and event.value not in OF_DECISIONS:
                keys = (one.arg or "" for one in call.keywords)
                named = tuple(sorted(set(keys) - {"detail", "exc_info"}))
                in_code.add((str(event.value), program, level, named))

    text = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
    on_page = {
        (event, program, level, tuple(sorted(re.findall("`([^`]+)`", keys))))
        for event, program, level, keys in _ROW.findall(text)
    }
    assert on_page == in_code
