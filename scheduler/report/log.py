"""Logging: the message text is the seeds' line, byte for byte; facts are added as keys.

Console lines by default, one JSON object per line by flag. The level ``detail`` is between info and
debug: a line ``log.debug(event, detail=True, ...)`` is one step of what an info line reports.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Final, TextIO

import structlog
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.typing import EventDict, Processor

DETAIL: Final = "detail"
#: The levels that the programs take, by the lowest level of structlog that is needed.
LEVELS: Final = {
    "warning": logging.WARNING,
    "info": logging.INFO,
    DETAIL: logging.DEBUG,
    "debug": logging.DEBUG,
}
_PLAIN: Final = frozenset(("event", "level", "timestamp"))
#: The general renderer writes these apart from the other keys.
_APART: Final = frozenset(("exception", "exc_info", "stack", "logger", "logger_name"))
_QUOTED: Final = re.compile(r"[ \t=\r\n\"']")
_general: Final = ConsoleRenderer(colors=False, pad_event_to=0, exception_formatter=plain_traceback)


def configure(*, as_json: bool = False, level: str = "info", stream: TextIO | None = None) -> None:
    """Set up structlog for the process; lines go to ``stream`` (standard error by default)."""
    renderer: Processor = structlog.processors.JSONRenderer() if as_json else console
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            *of_level(level),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(stream or sys.stderr),
        cache_logger_on_first_use=True,
    )


def of_level(level: str) -> tuple[Processor, ...]:
    """The processors for the level ``detail``; they follow ``add_log_level``."""
    if LEVELS[level] > logging.DEBUG:
        return ()
    return (_name_detail,) if level == "debug" else (_name_detail, _drop_debug)


def _name_detail(_logger: object, _method: str, line: EventDict) -> EventDict:
    if line.pop(DETAIL, False):
        line["level"] = DETAIL
    return line


def _drop_debug(_logger: object, _method: str, line: EventDict) -> EventDict:
    if line["level"] == "debug":
        raise structlog.DropEvent
    return line


def console(logger: object, method: str, line: EventDict) -> str:
    """structlog's text line, with a fast path for lines whose values are text and numbers.

    Each decision and each review writes a line; the general renderer took a sixth of a review.
    """
    if not _APART.isdisjoint(line):
        return str(_general(logger, method, line))
    facts = []
    for key in sorted(line.keys() - _PLAIN):
        value = line[key]
        if type(value) is str:
            facts.append(f" {key}={repr(value) if _QUOTED.search(value) else value}")
        elif type(value) in (int, float, bool):
            facts.append(f" {key}={value!r}")
        else:
            return str(_general(logger, method, line))
    return f"{line['timestamp']} [{line['level']:<9}] {line['event']}{''.join(facts)}"
