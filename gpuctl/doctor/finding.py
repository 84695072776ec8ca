"""A finding: the subject, the level, the result, and one line with the next step. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from gpuctl.doctor.facts import Unread

NAMES_SHOWN_MAX = 3


class Level(enum.Enum):
    """The severity: a warning may be intended, a failure keeps pods from starting.

    SKIP: ``gpuctl verify`` cannot check this on the cluster.
    """

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"
    SKIP = "SKIP"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """``advice`` is empty if no action is needed; ``lacks`` is a missing right of the user."""

    about: str
    level: Level
    says: str
    advice: str = ""
    lacks: str = ""


def ok(about: str, says: str) -> Finding:
    """A finding without a problem."""
    return Finding(about, Level.OK, says)


def warn(about: str, says: str, advice: str) -> Finding:
    """A finding that may be intended."""
    return Finding(about, Level.WARN, says, advice)


def fail(about: str, says: str, advice: str) -> Finding:
    """A finding that keeps pods from starting, or starts them with wrong devices."""
    return Finding(about, Level.FAIL, says, advice)


def skip(about: str, says: str, advice: str = "") -> Finding:
    """What the cluster does not have, or what needs a running container."""
    return Finding(about, Level.SKIP, says, advice)


def unread(about: str, fact: Unread) -> Finding:
    """A warning that the fact could not be read."""
    says, advice = f"not known: {fact.why}", "run this with an account that may read it"
    return Finding(about, Level.WARN, says, advice, fact.lacks)


def without_rights(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with one in place of all those for which the user lacks a right."""
    lacking = [one for one in findings if one.lacks]
    if not lacking:
        return list(findings)
    missing = listed(list(dict.fromkeys(one.lacks for one in lacking)))
    one = warn("rights", f"no right to {missing}", f"ask an admin: {len(lacking)} checks left out")
    return [*(each for each in findings if not each.lacks), one]


def listed(names: Sequence[str]) -> str:
    """The first names, and the number of the others.

    >>> listed(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
