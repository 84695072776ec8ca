"""Slices and claims by node, folded from watches."""

from __future__ import annotations

from fakegpu.api_types import Listed, News
from fakegpu.dra.api_types import ClaimFacts, SliceFacts
from fakegpu.node.pod_devices import Claimed


class Slices:
    """The newest observed version of every slice; own writes count as observed."""

    def __init__(self) -> None:
        self._known: dict[str, SliceFacts] = {}
        self._on: dict[str, dict[str, SliceFacts]] = {}

    def fold(self, news: News[SliceFacts]) -> set[str]:
        """Fold updates; returns the nodes with changed slices."""
        if isinstance(news, Listed):
            gone = {self.forget(name) for name in self._known.keys() - news.values.keys()}
            return {*filter(None, gone), *(o.pool for o in news.values.values() if self.saw(o))}
        if news.value is None:
            node = self.forget(news.key)
            return {node} if node else set()
        return {news.value.pool} if self.saw(news.value) else set()

    def saw(self, one: SliceFacts) -> bool:
        """Store a slice unless a newer one is known; returns whether it changed."""
        known = self._known.get(one.name)
        if known is not None and known.version >= one.version:
            return False
        self._known[one.name] = one
        self._on.setdefault(one.pool, {})[one.name] = one
        return True

    def forget(self, name: str) -> str:
        """Remove a deleted slice; returns its node, or an empty text if it was unknown."""
        gone = self._known.pop(name, None)
        if gone is None:
            return ""
        there = self._on[gone.pool]
        del there[name]
        if not there:
            del self._on[gone.pool]
        return gone.pool

    def of(self, node: str) -> tuple[SliceFacts, ...]:
        """The slices of a node's pools."""
        return tuple(self._on.get(node, {}).values())


class Claims:
    """Claims with devices, by the nodes of the devices."""

    def __init__(self) -> None:
        self._known: dict[str, ClaimFacts] = {}
        self._on: dict[str, set[str]] = {}

    def fold(self, news: News[ClaimFacts]) -> set[str]:
        """Apply an event; returns the nodes whose allocations changed."""
        if isinstance(news, Listed):
            keys = {*self._known, *news.values}
            return {node for key in keys for node in self._put(key, news.values.get(key))}
        return self._put(news.key, news.value)

    def _put(self, uid: str, now: ClaimFacts | None) -> set[str]:
        before = self._known.pop(uid, None)
        if now is not None:
            self._known[uid] = now
        if before == now:
            return set()
        former, present = (one.pools if one else frozenset() for one in (before, now))
        for node in former - present:
            self._on[node].discard(uid)
            if not self._on[node]:
                del self._on[node]
        for node in present:
            self._on.setdefault(node, set()).add(uid)
        return {*former, *present}

    def on(self, node: str) -> Claimed:
        """The claims on a node's devices."""
        found = (self._known[uid] for uid in self._on.get(node, ()))
        return {one.key: one.on(node) for one in found}
