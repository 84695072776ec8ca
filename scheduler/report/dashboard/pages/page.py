"""What all pages share: the form of their data, their envelope, and how they are encoded.

Equal states have equal bytes: a page has timestamps and no ages, so that it is sent only after a
change.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from scheduler.decide.explain import meaning_of
from scheduler.plugins import REASON_CODES
from scheduler.state.parts import Parts

KIND: Final = "DashboardPage"
#: The code of pods that were not decided yet.
NEW: Final = "NEW"
NEW_MEANING: Final = "not decided yet"
#: Entries of a list that are encoded in one part.
ENCODED: Final = 50

PageState = Literal["ok", "standby", "starting", "unknown"]


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Encoded with every field, so that a page need not know which may be absent."""


class Envelope(Shape, frozen=True, kw_only=True):
    """Before the field ``data`` of every page, which is null unless the state is ``ok``.

    ``message`` is one line for the user where it is not. ``refresh_s`` is the time between two
    computations.
    """

    api_version: str
    kind: str
    page: str
    state: PageState
    message: str
    leader: str
    scheduler: str
    time: str
    refresh_s: float


class PodName(Shape, frozen=True, kw_only=True):
    """A pod by name."""

    namespace: str
    pod: str


def encoded(page: msgspec.Struct, *lists: str) -> Parts[bytes]:
    """The JSON of a page; its fields with these names are lists, which are encoded in parts."""
    pieces: list[bytes] = []
    for field in msgspec.structs.fields(page):
        value = getattr(page, field.name)
        pieces.append(f'{"," if pieces else "{"}"{field.encode_name}":'.encode())
        if field.name not in lists:
            pieces.append(msgspec.json.encode(value))
            continue
        before = b"["
        for at in range(0, len(value), ENCODED):
            pieces += (before, msgspec.json.encode(value[at : at + ENCODED])[1:-1])
            before = b","
            yield ENCODED
        pieces.append(b"]" if value else b"[]")
    return b"".join((*pieces, b"}"))


def meaning(code: str) -> str:
    """The meaning of a reason code in one clause."""
    found = REASON_CODES.get(code)
    return NEW_MEANING if found is None else meaning_of(found).meaning
