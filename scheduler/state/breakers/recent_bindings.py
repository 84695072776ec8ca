"""Bound pods that the kubelet has neither admitted nor rejected yet.

They come from own placements and from the watch, so every replica knows them, also after a restart.
A deleted pod is kept until the reason is known.
"""

from __future__ import annotations

import msgspec

from scheduler.model.pods.pod import Pod

#: Maximum wait for the kubelet of a pod; its node becomes NotReady long before.
SILENCE_MAX_S = 600.0
#: Maximum wait for the reason of a deletion: three reads, 15 s each.
VERDICT_MAX_S = 60.0


class RecentBinding(msgspec.Struct):
    """A pod in flight; ``until`` is the end of the wait."""

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
        """A pod in flight."""
        return self._bound.get(uid)

    def to(self, node_name: str) -> list[Pod]:
        """The pods in flight to a node."""
        return [one.pod for one in self._on.get(node_name, {}).values()]

    def add(self, pod: Pod, node_name: str, now: float) -> None:
        """A pod was bound to a node."""
        known = self._bound.get(pod.uid)
        if known is not None and known.node_name == node_name:
            return
        self.remove(pod.uid)
        one = self._bound[pod.uid] = RecentBinding(pod, node_name, now + SILENCE_MAX_S)
        self._on.setdefault(node_name, {})[pod.uid] = one

    def mark_deleted(self, uid: str, now: float) -> bool:
        """A pod was deleted; returns whether its node may have rejected it."""
        one = self._bound.get(uid)
        if one is None or one.is_gone:
            return False
        one.is_gone, one.until = True, now + VERDICT_MAX_S
        return True

    def remove(self, uid: str) -> RecentBinding | None:
        """The result for a pod is known."""
        one = self._bound.pop(uid, None)
        if one is not None:
            on_node = self._on[one.node_name]
            del on_node[uid]
            if not on_node:
                del self._on[one.node_name]
        return one

    def pass_time(self, now: float) -> None:
        """Remove pods after the maximum wait."""
        for uid in [uid for uid, one in self._bound.items() if now >= one.until]:
            self.remove(uid)

    def missing(self, present: set[str]) -> list[str]:
        """Pods that are missing from a whole list."""
        return [uid for uid in self._bound if uid not in present]
