"""Pods that were bound to a node and that its kubelet has neither admitted nor refused yet.

Known from our own placements and from the watch, so that every replica knows them, and one that
was started a moment ago too. A pod that vanished holds its place until it is clear why.
"""

from __future__ import annotations

import msgspec

from scheduler.model.pods.pod import Pod

#: How long a node that is silent about a pod is waited for; it is not Ready long before.
SILENCE_MAX_S = 600.0
#: How long a pod that vanished is waited for: it is looked up three times, 15 s each.
VERDICT_MAX_S = 60.0


class RecentBinding(msgspec.Struct):
    """A pod on its way; ``until`` is when it is given up."""

    pod: Pod
    node_name: str
    until: float
    is_gone: bool = False


class RecentBindings:
    """The pods by uid and by node."""

    def __init__(self) -> None:
        self._bound: dict[str, RecentBinding] = {}
        self._on: dict[str, dict[str, RecentBinding]] = {}

    def __len__(self) -> int:
        return len(self._bound)

    def get(self, uid: str) -> RecentBinding | None:
        """A pod that is on its way."""
        return self._bound.get(uid)

    def to(self, node_name: str) -> list[Pod]:
        """The pods that are on their way to a node."""
        return [one.pod for one in self._on.get(node_name, {}).values()]

    def add(self, pod: Pod, node_name: str, now: float) -> None:
        """A pod is sent to a node, or was."""
        known = self._bound.get(pod.uid)
        if known is not None and known.node_name == node_name:
            return
        self.remove(pod.uid)
        one = self._bound[pod.uid] = RecentBinding(pod, node_name, now + SILENCE_MAX_S)
        self._on.setdefault(node_name, {})[pod.uid] = one

    def mark_deleted(self, uid: str, now: float) -> bool:
        """A pod is not there any more; whether its node may have refused it."""
        one = self._bound.get(uid)
        if one is None or one.is_gone:
            return False
        one.is_gone, one.until = True, now + VERDICT_MAX_S
        return True

    def remove(self, uid: str) -> RecentBinding | None:
        """It is clear what became of a pod."""
        one = self._bound.pop(uid, None)
        if one is not None:
            on_node = self._on[one.node_name]
            del on_node[uid]
            if not on_node:
                del self._on[one.node_name]
        return one

    def pass_time(self, now: float) -> None:
        """Give up pods of which nothing is heard."""
        for uid in [uid for uid, one in self._bound.items() if now >= one.until]:
            self.remove(uid)

    def missing(self, present: set[str]) -> list[str]:
        """Pods that a whole list does not hold."""
        return [uid for uid in self._bound if uid not in present]
