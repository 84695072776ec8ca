"""Fold a whole list of objects, with which a watch begins (client-go: Store.Replace)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from scheduler.state.event import Change

T = TypeVar("T")


def fold_list(
    known: Iterable[str],
    listed: Mapping[str, T],
    delete: Callable[[str], list[Change]],
    upsert: Callable[[T], list[Change]],
) -> list[Change]:
    """Delete the known objects that are missing from a list, then fold all that it has.

    ``known`` are the keys of the objects until now; ``delete`` may change them.
    """
    changes: list[Change] = []
    for key in [key for key in known if key not in listed]:
        changes += delete(key)
    for item in listed.values():
        changes += upsert(item)
    return changes
