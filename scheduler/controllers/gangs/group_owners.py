"""Asks for the owners of gangs with members that wait: their objects have the minimum.

An owner is read again while members wait, since its size may change.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.actions import ReadGroupOwner
from scheduler.model.pods.gang import GangKey
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import Effects

#: Seconds from one reading of an owner to the next.
AGAIN_S: Final = 10.0


class GroupOwners:
    """The owners that were asked for, and when."""

    name = "group-owners"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[GangKey, float] = {}

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Ask for owners that were not read lately."""
        gangs = self._cluster.gangs
        if not leads or not gangs.to_read:
            return ()
        for key in [key for key in gangs.to_read if not gangs.waiting(key)]:
            gangs.to_read.discard(key)
            self._asked.pop(key, None)
        due = [
            key for key in sorted(gangs.to_read) if now - self._asked.get(key, -AGAIN_S) >= AGAIN_S
        ]
        self._asked.update(dict.fromkeys(due, now))
        return tuple(ReadGroupOwner(key) for key in due)
