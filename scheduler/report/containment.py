"""Contains an exception that one object, pod or candidate causes: a log line and a counter.

A bug that one pod triggers must not stop the scheduling of others. Only ``InvariantViolation``
passes through and ends the process. The id of a problem depends on the object, the exception and
its place in the code, so a condition on a pod and the log lines of every replica carry the same id.
"""

from __future__ import annotations

import hashlib
import traceback
from types import TracebackType
from typing import Final, Literal, get_args

import structlog

from scheduler.report.metrics import Metrics
from scheduler.state.invariant import InvariantViolation

#: What failed; the label of the metric.
Part = Literal["admission", "decision", "event", "move", "tick"]

REMEMBERED_MAX: Final = 1_000

log = structlog.get_logger("scheduler")


class Containment:
    """Logs and counts exceptions instead of raising them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logged: dict[str, None] = {}
        metrics.begin_at_zero(metrics.internal_errors, *((part,) for part in get_args(Part)))

    def __call__(self, part: Part, about: str) -> Contained:
        """A context manager: an exception in its block ends the block and nothing else."""
        return Contained(self, part, about)

    def note(self, part: Part, about: str, problem: Exception) -> str:
        """Log an exception, with its traceback the first time, and count it; returns its id."""
        number = identity(about, problem)
        is_new = number not in self._logged
        if is_new:
            if len(self._logged) >= REMEMBERED_MAX:
                del self._logged[next(iter(self._logged))]
            self._logged[number] = None
        self._metrics.count_internal_error(part)
        log.error(
            "internal error",
            id=number,
            part=part,
            about=about,
            problem=f"{type(problem).__name__}: {str(problem)[:300]}",
            exc_info=problem if is_new else None,
        )
        return number


class Contained:
    """One block; InvariantViolation and cancellation pass through."""

    def __init__(self, containment: Containment, part: Part, about: str) -> None:
        self._containment = containment
        self._part = part
        self._about = about

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(problem, Exception) or isinstance(problem, InvariantViolation):
            return False
        self._containment.note(self._part, self._about, problem)
        return True


def identity(about: str, problem: Exception) -> str:
    """Eight hexadecimal digits: the same for the same fault at the same object."""
    frames = traceback.extract_tb(problem.__traceback__)[-1:]
    place = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
    text = "\0".join([about, type(problem).__name__, *place])
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
