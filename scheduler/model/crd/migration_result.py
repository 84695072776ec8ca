"""The result of a migration, as the status of the PodMigration holds it."""

from __future__ import annotations

import enum

import msgspec


class MigrationResult(enum.Enum):
    """The result: its name in ``status.result``, and whether it counts as a failure."""

    SUCCEEDED = ("Succeeded", False)
    TIER_NOT_GRANTED = ("TierNotGranted", True)
    DEADLINE_EXCEEDED = ("DeadlineExceeded", True)
    BLOCKED = ("Blocked", None)
    FORBIDDEN = ("Forbidden", None)
    POD_CHANGED = ("PodChanged", None)
    EVICTION_REFUSED = ("EvictionRefused", None)
    NOT_CREATED = ("NotCreated", None)

    @property
    def word(self) -> str:
        """The name in ``status.result``."""
        return str(self.value[0])

    @property
    def label(self) -> str:
        """The value of the metric's label."""
        return self.name.lower()

    @property
    def is_failure(self) -> bool | None:
        """None if it counts neither as a failure nor as a success."""
        failure: bool | None = self.value[1]
        return failure


BY_WORD = {result.word: result for result in MigrationResult}


class MigrationEnd(msgspec.Struct, frozen=True):
    """The end of a migration; ``at`` is seconds since 1970."""

    result: MigrationResult
    at: float
    text: str = ""
