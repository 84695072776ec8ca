"""What clients do to the log: one short line per interval."""

from __future__ import annotations

from structlog.testing import capture_logs

from scheduler.httpserver.log_throttle import LogThrottle, ThrottledLogger


def test_one_line_per_interval_with_the_dropped_count() -> None:
    now = [0.0]
    seldom = LogThrottle(10.0, lambda: now[0])
    passed = []
    for now[0] in (0.0, 1.0, 9.9, 10.0, 25.0):
        passed.append(seldom.passes())

    assert passed == [0, None, None, 2, 0]


def test_multi_line_error_is_one_short_line_without_traceback() -> None:
    """aiohttp quotes the client's own bytes, over several lines."""
    logger = ThrottledLogger("health", LogThrottle())
    with capture_logs() as lines:
        for _ in range(3):
            logger.exception("Error handling request", exc_info=ValueError("400:\n " + "x\n" * 999))

    (line,) = lines
    assert (line["event"], line["port"]) == ("request unreadable", "health")
    assert "\n" not in line["problem"]
    assert len(line["problem"]) <= 120
    assert "exc_info" not in line
