"""The API server's audit log, of which no line is decoded that a test does not ask about.

The log of a whole run has hundreds of thousands of lines. A reader names a text that its lines
contain, and where it begins, and it continues where it ended before.

The API server writes an event after its response, on a slow machine a while after it: a test waits
for the events that it expects, and leaves out those of requests from before its begin.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from tools.controlplane import ControlPlane, wait_until

Json = dict[str, Any]


class AuditLog:
    """The events of a log whose lines contain a text, from a position in bytes on."""

    def __init__(self, log: Path | None, text: str, begin: int = 0) -> None:
        assert log is not None, "the control plane was started with an audit log"
        self._log = log
        self._text = text.encode()
        self._end = begin
        self._events: list[Json] = []

    def events(self) -> list[Json]:
        """All until now, in the order of the log; each line is read once."""
        self._events += self._new()
        return self._events

    def _new(self) -> Iterator[Json]:
        with self._log.open("rb") as lines:
            lines.seek(self._end)
            for line in lines:
                if not line.endswith(b"\n"):
                    return  # half a last line is not there yet
                self._end += len(line)
                if self._text in line:
                    yield json.loads(line)


class Moment(NamedTuple):
    """The end of the log, and the time as the API server writes it."""

    position: int
    time: str


BEGIN: Final = Moment(0, "")


def now(cp: ControlPlane) -> Moment:
    """The moment from which on a later reader reads."""
    assert cp.audit_log is not None, "the control plane was started with an audit log"
    time = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return Moment(cp.audit_log.stat().st_size, time)


@cache
def of_pods(cp: ControlPlane, namespace: str) -> AuditLog:
    """What is asked of the pods of a namespace; one reader for all questions."""
    return AuditLog(cp.audit_log, f'"/api/v1/namespaces/{namespace}/pods')


def audited(cp: ControlPlane, user: str, begin: Moment = BEGIN) -> list[Json]:
    """The API server's own record of what a user asked for since a moment."""
    return _of_user(AuditLog(cp.audit_log, f'"username":"{user}"', begin.position), user, begin)


def wait_audited(
    cp: ControlPlane, user: str, what: str, check: Callable[[list[Json]], bool]
) -> None:
    """Wait until what a user did is in the log."""
    log = AuditLog(cp.audit_log, f'"username":"{user}"')
    wait_until(lambda: check(_of_user(log, user, BEGIN)), what=f"{what} in the audit log")


def _of_user(log: AuditLog, user: str, begin: Moment) -> list[Json]:
    return [
        event
        for event in log.events()
        if event["user"]["username"] == user and event["requestReceivedTimestamp"] >= begin.time
    ]
