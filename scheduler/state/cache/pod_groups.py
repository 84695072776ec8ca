"""The members of every pod group, by namespace and name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.model.pods.pod import Pod

Key = tuple[str, str]


class PodGroups:
    """Members by group; ``pods`` is the cluster's own mapping by uid."""

    def __init__(self, pods: Mapping[str, Pod]) -> None:
        self._pods = pods
        self._members: dict[Key, set[str]] = {}

    def upsert(self, pod: Pod, before: Pod | None) -> None:
        """A pod's newest state."""
        if before is not None and _key(before) != _key(pod):
            self.delete(before)
        if pod.group:
            self._members.setdefault(_key(pod), set()).add(pod.uid)

    def delete(self, pod: Pod) -> None:
        """A pod was deleted."""
        members = self._members.get(_key(pod))
        if members is None:
            return
        members.discard(pod.uid)
        if not members:
            del self._members[_key(pod)]

    def members(self, pod: Pod) -> Iterator[Pod]:
        """The other live members of the pod's group."""
        for uid in sorted(self._members.get(_key(pod), ())):
            if uid != pod.uid:
                yield self._pods[uid]


def _key(pod: Pod) -> Key:
    return pod.namespace, pod.group
