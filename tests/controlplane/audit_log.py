"""The API server's audit log, of which no line is decoded that a test does not ask about.

The log of a whole run has hundreds of thousands of lines. A reader names a text that its lines
contain, and where it begins, and it continues where it ended before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tools.controlplane import ControlPlane

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


def end_of(cp: ControlPlane) -> int:
    """Where the log ends now: the position from which on a later reader begins."""
    assert cp.audit_log is not None, "the control plane was started with an audit log"
    return cp.audit_log.stat().st_size


@cache
def of_pods(cp: ControlPlane, namespace: str) -> AuditLog:
    """What is asked of the pods of a namespace; one reader for all questions."""
    return AuditLog(cp.audit_log, f'"/api/v1/namespaces/{namespace}/pods')


def audited(cp: ControlPlane, user: str, begin: int = 0) -> list[Json]:
    """The API server's own record of what a user did."""
    events = AuditLog(cp.audit_log, f'"username":"{user}"', begin).events()
    return [event for event in events if event["user"]["username"] == user]
