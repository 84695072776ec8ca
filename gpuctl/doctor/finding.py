"""A finding: what was looked at, how it is, and one line with what to do. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from gpuctl.doctor.facts import Unread

NAMES_SHOWN_MAX = 3


class Level(enum.Enum):
    """How bad it is: a warning may be what somebody wanted, a failure keeps pods from starting."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """``advice`` is empty where nothing has to be done."""

    about: str
    level: Level
    says: str
    advice: str = ""


def ok(about: str, says: str) -> Finding:
    """All is well."""
    return Finding(about, Level.OK, says)


def warn(about: str, says: str, advice: str) -> Finding:
    """It may be meant so."""
    return Finding(about, Level.WARN, says, advice)


def fail(about: str, says: str, advice: str) -> Finding:
    """Pods will not start, or wrongly."""
    return Finding(about, Level.FAIL, says, advice)


def unread(about: str, fact: Unread) -> Finding:
    """It could not be looked at."""
    return warn(about, f"not known: {fact.why}", "run this as somebody who may read it")


def listed(names: Sequence[str]) -> str:
    """A few names, and how many more.

    >>> listed(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
