"""Folds updates into a store, and returns the real changes. Pure."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from fakegpu.api_types import Listed, MapFacts, News, NodeFacts

T = TypeVar("T")


def apply(known: dict[str, T], news: News[T]) -> list[str]:
    """Store the updates; returns the changed keys."""
    if isinstance(news, Listed):
        changed = [
            key
            for key in {**known, **news.values}
            if not _is_same(known.get(key), news.values.get(key))
        ]
        known.clear()
        known.update(news.values)
        return changed
    before = known.get(news.key)
    if news.value is None:
        known.pop(news.key, None)
    else:
        known[news.key] = news.value
    return [] if _is_same(before, news.value) else [news.key]


def _is_same(before: object, now: object) -> bool:
    """Whether only the version changed: a heartbeat needs no reconciliation."""
    if isinstance(before, NodeFacts | MapFacts) and isinstance(now, NodeFacts | MapFacts):
        return bool(msgspec.structs.replace(before, version=now.version) == now)
    return before == now
