"""Holds the place of a member whose Binding failed, so that no other pod takes it meanwhile.

Only while another member of the gang has a node: a gang of which nothing is bound holds nothing.
The place is a nomination in memory, which pods of lower or equal priority respect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.framework.decision import Placement
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import NOTHING, Effects

#: Seconds for which a place is held, from the first failed Binding.
HELD_S: Final = 60.0


class HeldPlaces:
    """Members that wait with a place, and until when it is theirs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._until: dict[str, float] = {}

    def bind_failed(self, placement: Placement, now: float) -> Effects:
        """The Binding of a placement failed, and the pod waits again."""
        pod = placement.pod
        gang = self._cluster.gangs.of(pod)
        if gang is None:
            return NOTHING
        if not gang.is_started:
            return self._release(uid for uid in tuple(self._until) if uid in gang.members)
        if placement.claims is not None or placement.volumes is not None:
            return NOTHING  # they are given back with the placement
        if self._until.setdefault(pod.uid, now + HELD_S) <= now:
            return NOTHING
        return tuple(self._cluster.nominate(pod, placement.node_name, placement.devices))

    def has(self, uid: str) -> bool:
        """Whether a place is held for a member, or was."""
        return uid in self._until

    def expire(self, now: float) -> Effects:
        """Release the places of members that are not bound in time; they get none again."""
        if not self._until:
            return NOTHING
        pods = self._cluster.pods
        for uid in [uid for uid in self._until if uid not in pods or pods[uid].node_name]:
            del self._until[uid]
        over = [uid for uid, until in self._until.items() if until <= now]
        effects: Effects = ()
        for uid in over:
            if uid in self._cluster.nominated and uid not in self._cluster.assumed:
                effects += tuple(self._cluster.withdraw_nomination(uid))
        return effects

    def _release(self, uids: Iterable[str]) -> Effects:
        effects: Effects = ()
        for uid in uids:
            del self._until[uid]
            effects += tuple(self._cluster.withdraw_nomination(uid))
        return effects
