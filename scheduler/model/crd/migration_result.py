"""How a move ended, as a ticket keeps it: a word, a time, and what people are told. Pure."""

from __future__ import annotations

import enum

import msgspec


class MigrationResult(enum.Enum):
    """How a move ended: the word in the ticket's status, and whether it counts as a failure."""

    DONE = ("Done", False)
    WITHOUT_TIER = ("WithoutTier", True)
    EXPIRED = ("Expired", True)
    HINDERED = ("Hindered", None)
    FORBIDDEN = ("Forbidden", None)
    POD_CHANGED = ("PodChanged", None)
    REFUSED = ("Refused", None)
    UNWRITTEN = ("Unwritten", None)

    @property
    def word(self) -> str:
        """As the ticket's status says it."""
        return str(self.value[0])

    @property
    def label(self) -> str:
        """The metric's word."""
        return self.name.lower()

    @property
    def is_failure(self) -> bool | None:
        """None where nobody is to blame for it."""
        failure: bool | None = self.value[1]
        return failure


BY_WORD = {result.word: result for result in MigrationResult}


class MigrationEnd(msgspec.Struct, frozen=True):
    """A move that is over; ``at`` is seconds since 1970."""

    result: MigrationResult
    at: float
    text: str = ""
