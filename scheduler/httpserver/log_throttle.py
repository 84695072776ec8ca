"""Log lines about client behaviour: one per interval, with the number of suppressed ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

import structlog

from scheduler.httpserver.limits import LOG_EVERY_S

_SHOWN_MAX: Final = 120

log = structlog.get_logger("http")


class LogThrottle:
    """Lets one event through per interval and counts the others."""

    def __init__(
        self, interval_s: float = LOG_EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._next = float("-inf")
        self._left_out = 0

    def passes(self) -> int | None:
        """The number of events suppressed before this one; None if this one is suppressed too."""
        now = self._clock()
        if now < self._next:
            self._left_out += 1
            return None
        self._next = now + self._interval_s
        left_out, self._left_out = self._left_out, 0
        return left_out


class ThrottledLogger(logging.Logger):
    """For aiohttp, which logs a traceback of twelve lines per invalid request."""

    def __init__(self, port: str, seldom: LogThrottle | None = None) -> None:
        super().__init__("aiohttp.server", logging.ERROR)
        self._port = port
        self._seldom = seldom or LogThrottle()

    def exception(
        self, msg: object, *args: object, exc_info: Any = True, **_kwargs: object
    ) -> None:
        """One short line instead of a traceback."""
        left_out = self._seldom.passes()
        if left_out is not None:
            text = str(exc_info if isinstance(exc_info, BaseException) else msg)
            problem = " ".join(text.split())[:_SHOWN_MAX]
            log.warning("request unreadable", port=self._port, problem=problem, left_out=left_out)


def log_internal_error(seldom: LogThrottle, port: str, path: str) -> None:
    """Log a failed handler: one line with the traceback per interval. For an except block."""
    left_out = seldom.passes()
    if left_out is not None:
        log.exception(
            "request handler failed", port=port, path=path[:_SHOWN_MAX], left_out=left_out
        )
