"""A rejection's sentence taken apart again into counts, texts and codes.

The condition on a pod carries only the sentence, so a reader of nothing but pods and events tells
the codes by their words.

Must never: be read by a decision. These are words for people.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scheduler.model.reason import NEVER
from scheduler.model.reason_code import ReasonCode
from scheduler.plugins import REASON_CODES

_WORDS: Final = tuple(
    (code, re.compile(pattern)) for code in REASON_CODES.values() for pattern in code.words
)
_HEAD: Final = re.compile(r"0/(\d+) nodes are available: ")
#: What is added behind the nodes' reasons: by kube-scheduler for pods of its own, and by us.
_TAIL: Final = re.compile(rf"\. (?:preemption:|{NEVER}).*", re.DOTALL)
_COUNTED: Final = re.compile(r"(\d+) (.+)")


class Part(msgspec.Struct, frozen=True):
    """One part of a rejection's sentence; ``count`` is 0 where it is about the whole pod."""

    count: int
    text: str
    code: ReasonCode | None


def code_of(text: str) -> ReasonCode | None:
    """The code whose words these are; None for the words of another scheduler.

    >>> code_of("Insufficient nvidia.com/gpu (need 2; best node has 1 free)").name
    'INSUFFICIENT'
    """
    return next((code for code, words in _WORDS if words.match(text)), None)


def parts(message: str) -> tuple[Part, ...]:
    """A rejection's sentence taken apart again; the inverse of ``model.reason.sentence``."""
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
