"""The condition PodGroupInitiallyScheduled of the API server's own PodGroups.

No other program writes it for pods that name this scheduler. It is True once the minimum of the
group has nodes (of a group without a gang: one pod), and stays so. Before that it is False with the
reason why the last plan failed. An incomplete group has none, as with kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from scheduler.model.actions import WriteGroupState
from scheduler.model.pods.gang import GangKey, GangSource, GroupState, PodGroup
from scheduler.model.timestamps import second_time
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import Effects
from scheduler.state.gangs.gang import Gang

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
SCHEDULED: Final = "Scheduled"
#: Seconds after which a condition is asked for again that the watch does not show, or shows with
#: another text.
AGAIN_S: Final = 30.0
MESSAGE_MAX: Final = 1000


class GroupStates:
    """What PodGroups are to say; ``wall`` is Unix time."""

    name = "pod-groups"

    def __init__(self, cluster: Cluster, wall: Callable[[], float]) -> None:
        self._cluster = cluster
        self._wall = wall
        #: The groups with a condition to write, and what was asked for last, and when.
        self._wanted: dict[GangKey, tuple[str, str]] = {}
        self._asked: dict[GangKey, tuple[str, float]] = {}

    def reject(self, gang: Gang, reason: str, text: str) -> None:
        """The plan of a gang failed; of one that was scheduled before that says nothing."""
        is_scheduled = self._wanted.get(gang.key, ("", ""))[0] == SCHEDULED
        if gang.key.source == GangSource.API.value and not is_scheduled:
            self._wanted[gang.key] = (reason, text[:MESSAGE_MAX])

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Ask for the conditions that the watch does not show yet."""
        gangs = self._cluster.gangs
        if not leads or not (gangs.to_report or self._wanted):
            return ()
        for key in gangs.to_report:
            if (count := self._placed(key)) is not None:
                self._wanted[key] = (SCHEDULED, f"{count} pods of the group have a node")
        gangs.to_report.clear()
        return tuple(self._writes(now))

    def _placed(self, key: GangKey) -> int | None:
        """How many members are bound, if they are enough and one of them names this scheduler."""
        group, gang = self._cluster.gangs.group(key), self._cluster.gangs.at(key)
        if group is None or gang is None:
            return None
        ours = self._cluster.scheduler_name
        bound = [pod for pod in gang.members.values() if pod.node_name]
        is_ours = any(pod.scheduler_name == ours for pod in bound)
        return len(bound) if is_ours and len(bound) >= (group.minimum or 1) else None

    def _writes(self, now: float) -> list[WriteGroupState]:
        found = []
        for key, (reason, text) in tuple(self._wanted.items()):
            group = self._cluster.gangs.group(key)
            if group is None or _is_shown(group.state, reason, text):
                del self._wanted[key]
                self._asked.pop(key, None)
                continue
            asked, since = self._asked.get(key, ("", 0.0))
            shown = group.state.reason if group.state is not None else ""
            if reason in (asked, shown) and now - since < AGAIN_S:
                continue
            self._asked[key] = (reason, now)
            found.append(WriteGroupState(group, self._state(group, reason, text)))
        return found

    def _state(self, group: PodGroup, reason: str, text: str) -> GroupState:
        is_scheduled, shown = reason == SCHEDULED, group.state
        is_same = shown is not None and shown.is_scheduled == is_scheduled
        now = second_time(datetime.fromtimestamp(self._wall(), UTC))
        since = shown.since if is_same and shown is not None else now
        return GroupState(is_scheduled, reason, text, since)


def _is_shown(state: GroupState | None, reason: str, text: str) -> bool:
    """Whether the group says so already; what was scheduled once stays so."""
    if state is None:
        return False
    return state.is_scheduled or (state.reason, state.message) == (reason, text)
