"""The head of the queue: at most one gang that does not fit reserves room, for a limited time.

Its members are nominated in memory only, so that no condition says so and a new leader starts
without it. Pods of equal or lower priority leave it the room, but for those that end before the
deadline::

    refused, first in order --reserve--> reserves --placed--> over
                                            |--incomplete--> over
                                            '--deadline--> rest; then the next gang reserves

The rest is as long as the reservation. Gangs that follow each other without it would keep room
that none of them can use from all others for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from scheduler.decide.gang.plan import budget_of
from scheduler.decide.gang.reserve import room_for
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.gang import GangKey
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.cache.nominator import Reserved
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.gangs.gang import Gang

#: Seconds for which a gang reserves room.
RESERVE_S: Final = 60.0

log = structlog.get_logger("gangs")


class HeadReservation:
    """Which gang reserves, and until when; which ones wait for room behind it."""

    def __init__(self, cluster: Cluster, reserve_s: float) -> None:
        self._cluster = cluster
        self._reserve_s = reserve_s
        self._holder: GangKey | None = None
        self._until = 0.0
        #: The gangs that no plan fitted at their last try.
        self._refused: dict[GangKey, None] = {}
        #: Gangs that had a turn, and until when they may not have another one.
        self._paused: dict[GangKey, float] = {}
        #: After a deadline nothing is reserved until then.
        self._rest_until = 0.0

    def refused(
        self, gang: Gang, waiting: Sequence[Pod], pipeline: Pipeline, now: float
    ) -> Effects:
        """No plan fits a gang: it reserves if it is the first one that may."""
        if self._reserve_s <= 0:
            return NOTHING
        self._refused[gang.key] = None
        effects = self._end() if self._is_overtaken_by(gang) else NOTHING
        if self._holder is None and self._first(now) == gang.key:
            self._holder, self._until = gang.key, now + self._reserve_s
            log.info("group reserves room", group=str(gang.key), seconds=self._reserve_s)
        if self._holder == gang.key:
            effects += self._reserve(gang, waiting, pipeline, now)
        return effects

    def placed(self, gang: Gang) -> Effects:
        """A gang waits for no room: it was placed, or pods end for it, or members are missing."""
        self._refused.pop(gang.key, None)
        return self._end() if self._holder == gang.key else NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """After the deadline the next gang is tried, and reserves if it does not fit."""
        if not self._refused:
            return NOTHING
        if not leads:
            self._refused.clear()
            return self._end()
        effects: Effects = ()
        for key in [key for key in self._refused if not self._cluster.gangs.is_complete(key)]:
            del self._refused[key]
        if self._holder is not None:
            if self._holder in self._refused and now < self._until:
                self._show(now)
                return NOTHING
            if now >= self._until:
                self._rest_until = now + self._reserve_s
            effects = self._pause(now)
        self._paused = {key: at for key, at in self._paused.items() if key in self._refused}
        first = self._first(now)
        gang = self._cluster.gangs.at(first) if first is not None else None
        if gang is not None:
            effects += (ev.GangChanged(gang.key),)
        return effects

    def _first(self, now: float) -> GangKey | None:
        """The gang at the head: by priority, then one that has started, then by their last turns,
        then by age.
        """

        def order(gang: Gang) -> tuple[object, ...]:
            turn = self._paused.get(gang.key, 0.0)
            return *_rank(gang), turn, min(pod.created for pod in gang.waiting_pods()), gang.key

        if now < self._rest_until:
            return None
        gangs = (self._cluster.gangs.at(key) for key in self._refused)
        may = [
            gang
            for gang in gangs
            if gang is not None and gang.is_complete and self._paused.get(gang.key, 0.0) <= now
        ]
        return min(may, key=order).key if may else None

    def _is_overtaken_by(self, gang: Gang) -> bool:
        """Whether a gang comes before the one that reserves, whatever their age is."""
        holder = self._cluster.gangs.at(self._holder) if self._holder is not None else None
        return holder is not None and holder.is_complete and _rank(gang) < _rank(holder)

    def _reserve(
        self, gang: Gang, waiting: Sequence[Pod], pipeline: Pipeline, now: float
    ) -> Effects:
        """Hold the room that the gang would take, in place of what it held before."""
        found = room_for(self._cluster, gang, waiting, pipeline, budget_of(waiting, pipeline))
        if not found:  # it would not fit if all others ended
            return self._pause(now)
        nominations = self._cluster.nominations
        before = nominations.reserved.uids if nominations.reserved is not None else {}
        mine = [
            one for one in found if one.pod.uid in before or one.pod.uid not in nominations.held
        ]
        uids = {one.pod.uid: None for one in mine}
        effects = self._withdraw(uid for uid in before if uid not in uids)
        for one in mine:
            effects += tuple(self._cluster.nominate(one.pod, one.node_name, one.devices))
        nominations.reserved = Reserved(uids, self._until - now)
        return effects

    def _show(self, now: float) -> None:
        """Decisions read how long the reservation lasts, and no clock."""
        nominations = self._cluster.nominations
        if nominations.reserved is not None:
            uids = nominations.reserved.uids
            nominations.reserved = Reserved(uids, self._until - now)

    def _pause(self, now: float) -> Effects:
        """The turn of the gang is over."""
        if self._holder is not None:
            self._paused[self._holder] = now + self._reserve_s
        return self._end()

    def _end(self) -> Effects:
        nominations = self._cluster.nominations
        reserved, nominations.reserved = nominations.reserved, None
        self._holder = None
        return self._withdraw(reserved.uids) if reserved is not None else NOTHING

    def _withdraw(self, uids: Iterable[str]) -> Effects:
        effects: Effects = ()
        for uid in uids:
            effects += tuple(self._cluster.withdraw_nomination(uid))
        return effects


def _rank(gang: Gang) -> tuple[int, bool]:
    """Smaller comes first: a gang that ran already needs only what it lost."""
    return -max(pod.priority for pod in gang.waiting_pods()), not gang.is_started
