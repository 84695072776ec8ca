"""Pods with devices, by node, and the priorities of their PodGroups. Pure."""

from __future__ import annotations

import msgspec

from fakegpu.api_types import Listed, News
from fakegpu.node import utilization
from fakegpu.node.pod_devices import PodUse
from fakegpu.pod_decode import PodFacts
from fakegpu.store import apply


class Pods:
    """All pods of a cluster; folding updates returns the changed nodes."""

    def __init__(self) -> None:
        self._pods: dict[str, PodFacts] = {}
        self._on_node: dict[str, dict[str, PodUse]] = {}
        self._priorities: dict[str, str] = {}

    def on(self, node: str) -> list[PodUse]:
        """The pods on a node."""
        return [self._as_grouped(use) for use in self._on_node.get(node, {}).values()]

    def fold(self, news: News[PodFacts]) -> list[str]:
        """Fold pods by uid."""
        uids = {*self._pods, *news.values} if isinstance(news, Listed) else {news.key}
        former = {uid: self._pods.get(uid) for uid in uids}
        nodes: list[str] = []
        for uid in apply(self._pods, news):
            nodes += self._place(uid, former[uid], self._pods.get(uid))
        return nodes

    def fold_groups(self, news: News[str]) -> list[str]:
        """Fold the priority classes of PodGroups."""
        changed = set(apply(self._priorities, news))
        if not changed:
            return []
        return [one.node for one in self._pods.values() if one.use.group in changed]

    def _place(self, uid: str, former: PodFacts | None, now: PodFacts | None) -> list[str]:
        nodes = []
        if former is not None:
            nodes.append(former.node)
            there = self._on_node.get(former.node, {})
            there.pop(uid, None)
            if not there:
                self._on_node.pop(former.node, None)
        if now is not None:
            nodes.append(now.node)
            self._on_node.setdefault(now.node, {})[uid] = now.use
        return nodes

    def _as_grouped(self, use: PodUse) -> PodUse:
        """A pod without a utilization of its own has the one of its group's priority."""
        if use.group not in self._priorities:
            return use
        busy = utilization.of_priority(self._priorities[use.group])
        return msgspec.structs.replace(use, load=busy)
