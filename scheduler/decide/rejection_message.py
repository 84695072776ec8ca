"""Splits a rejection message into counts, texts and codes.

The condition on a pod has only the message, so this module also finds the code of a message. So the
remediation needs only the right to read pods and events.

Must never: be used by a decision.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scheduler.model.reasons.reason import IMPOSSIBLE
from scheduler.model.reasons.reason_code import ReasonCode
from scheduler.plugins import REASON_CODES

_WORDS: Final = tuple(
    (code, re.compile(pattern)) for code in REASON_CODES.values() for pattern in code.words
)
_HEAD: Final = re.compile(r"0/(\d+) nodes are available: ")
#: The suffixes of kube-scheduler and of gpu-scheduler, after the nodes' reasons.
_TAIL: Final = re.compile(rf"\. (?:preemption:|group [\w.-]+: |{IMPOSSIBLE}).*", re.DOTALL)
_COUNTED: Final = re.compile(r"(\d+) (.+)")


class Part(msgspec.Struct, frozen=True):
    """One part of a rejection message; ``count`` is 0 if the part concerns the whole pod."""

    count: int
    text: str
    code: ReasonCode | None


def code_of(text: str) -> ReasonCode | None:
    """The code of a message; None for a message of another program.

    >>> code_of("Insufficient nvidia.com/gpu (need 2; best node has 1 free)").name
    'INSUFFICIENT'
    """
    return next((code for code, words in _WORDS if words.match(text)), None)


def parts(message: str) -> tuple[Part, ...]:
    """Split a rejection message into parts; the inverse of ``model.reasons.reason.sentence``."""
    head = _HEAD.match(message)
    if head is None:
        return (Part(0, message, code_of(message)),) if message else ()
    rest = _TAIL.sub("", message[head.end() :]).removesuffix(".")
    if code_of(rest) is not None:
        return (Part(0, rest, code_of(rest)),)
    found: list[Part] = []
    for piece in rest.split(", "):
        counted = _COUNTED.fullmatch(piece)
        count, text = (int(counted[1]), counted[2]) if counted else (0, piece)
        found.append(Part(count, text, code_of(text)))
    return tuple(found)
