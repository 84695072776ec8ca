"""Counts by key that keep no zero. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def add(counts: dict[Key, int], key: Key, delta: int) -> None:
    """Add to the count of a key."""
    count = counts.get(key, 0) + delta
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
