"""Logging: the message text is the seeds' line, byte for byte; facts are added as keys.

Console lines by default, one JSON object per line by flag.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog


def configure(
    *, as_json: bool = False, verbose: bool = False, stream: TextIO | None = None
) -> None:
    """Set up structlog for the process; lines go to ``stream`` (standard error by default)."""
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbose else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(stream or sys.stderr),
        cache_logger_on_first_use=True,
    )
