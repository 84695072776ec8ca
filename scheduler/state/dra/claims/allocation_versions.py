"""When each claim was allocated, by the version of the write: the order of two allocations.

Versions of one kind of one API server are numbers, and a watch shows them in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.model.dra.claim import ResourceClaim


class AllocationVersions:
    """The version at which each claim was first seen with its allocation."""

    def __init__(self) -> None:
        #: The newest version of any claim that the watch has shown.
        self.shown = 0
        self._versions: dict[str, int] = {}
        #: Claims that a list showed: they were allocated at that version or before.
        self._uncertain: set[str] = set()
        self._is_list = False

    def show(self, claim: ResourceClaim) -> None:
        """The watch shows a claim."""
        self.shown = max(self.shown, version_of(claim))

    @contextmanager
    def listing(self) -> Iterator[None]:
        """What changes meanwhile was listed: the writes between two lists were not seen."""
        self._is_list = True
        try:
            yield
        finally:
            self._is_list = False

    def change(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        """A claim changed; None where it was not there, or is gone."""
        if after is None or after.allocation is None:
            if before is not None:
                self._forget(before.key)
            return
        was_seen = before is not None and before.uid == after.uid
        if was_seen and before is not None and before.allocation == after.allocation:
            return
        self._versions[after.key] = version_of(after)
        if self._is_list or not was_seen:
            self._uncertain.add(after.key)
        else:
            self._uncertain.discard(after.key)

    def __contains__(self, key: str) -> bool:
        return key in self._versions

    def is_later(self, key: str, than: str) -> bool:
        """Whether a claim was certainly allocated after another one."""
        return key not in self._uncertain and self._versions[key] > self._versions[than]

    def _forget(self, key: str) -> None:
        self._versions.pop(key, None)
        self._uncertain.discard(key)


def version_of(claim: ResourceClaim) -> int:
    """The version of a claim as a number; 0 where it is none."""
    return int(claim.version) if claim.version.isdecimal() else 0
