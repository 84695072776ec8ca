"""The log format: the seeds' text byte for byte by default, JSON with a flag."""

from __future__ import annotations

from typing import Any, Final

import structlog
from structlog.processors import (
    JSONRenderer,
    TimeStamper,
    add_log_level,
    dict_tracebacks,
)

from scheduler.report.log import DETAIL, LEVELS, console, of_level

__all__ = ["DETAIL", "FORMATS", "LEVELS", "set_up"]

FORMATS: Final = ("console", "json")


def set_up(log_format: str, level: str) -> None:
    """Write to standard output; once, before the first line."""
    rendering: list[Any] = [console]
    if log_format == "json":
        rendering = [dict_tracebacks, JSONRenderer()]
    structlog.configure(
        processors=[
            add_log_level,
            *of_level(level),
            TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(),
        cache_logger_on_first_use=True,
    )
