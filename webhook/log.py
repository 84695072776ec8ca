"""How log lines look: the seeds' text byte for byte, for people by default, as JSON by flag."""

from __future__ import annotations

import logging
from typing import Any

import structlog
from structlog.processors import (
    JSONRenderer,
    TimeStamper,
    add_log_level,
    dict_tracebacks,
)

FORMATS = ("console", "json")


def set_up(log_format: str) -> None:
    """Write to standard output; once, before the first line."""
    rendering: list[Any] = [
        structlog.dev.ConsoleRenderer(
            colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
    ]
    if log_format == "json":
        rendering = [dict_tracebacks, JSONRenderer()]
    structlog.configure(
        processors=[add_log_level, TimeStamper(fmt="iso", utc=True), *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(),
        cache_logger_on_first_use=True,
    )
