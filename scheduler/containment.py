"""Where an exception that one object, pod or candidate causes ends: in the log, and in a counter.

Whatever a bug of ours does with one pod, the others go on. Only ``InvariantViolation`` passes
through and ends the process. A problem has an id that stays the same as long as it is the same
problem, so that a condition on a pod and the line in the log can be brought together, on every
replica."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Literal

import structlog

from scheduler.state.invariant import InvariantViolation

#: What was being done; the label of the metric.
Part = Literal["admission", "decision", "event", "move", "tick"]
#: What contains: given a part and whom it is about.
Contain = Callable[[Part, str], AbstractContextManager[object, bool]]

REMEMBERED_MAX: Final = 1_000

log = structlog.get_logger("scheduler")


class _Open(AbstractContextManager[None, bool]):
    def __exit__(self, *_: object) -> bool:  # type: ignore[exit-return] # others may contain
        return False


def uncontained(part: Part, about: str) -> AbstractContextManager[object, bool]:
    """Contains nothing, so that a test sees every fault."""
    return _Open()


class Containment:
    """Ends exceptions in the log; ``count`` gets the part of each one."""

    def __init__(self, count: Callable[[Part], None]) -> None:
        self._count = count
        self._told: dict[str, None] = {}

    def __call__(self, part: Part, about: str) -> _Contained:
        """What is done in the block ends with it, whatever it raises (see ``note``)."""
        return _Contained(self, part, about)

    def note(self, part: Part, about: str, problem: Exception) -> str:
        """Say in the log what was raised, with its traceback the first time; returns its id."""
        number = identity(about, problem)
        is_new = number not in self._told
        if is_new:
            if len(self._told) >= REMEMBERED_MAX:
                del self._told[next(iter(self._told))]
            self._told[number] = None
        self._count(part)
        log.error(
            f"internal error {number}",
            part=part,
            about=about,
            problem=f"{type(problem).__name__}: {str(problem)[:300]}",
            exc_info=problem if is_new else None,
        )
        return number


class _Contained:
    """One block; BrokenBooks and cancellation pass through."""

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
    """Eight digits: the same for the same fault at the same object."""
    frames = traceback.extract_tb(problem.__traceback__)[-1:]
    place = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
    text = "\0".join([about, type(problem).__name__, *place])
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
