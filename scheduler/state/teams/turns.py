"""The order of the teams inside a priority, as it is when a pod is taken from the queue.

Entitled work comes first, that of the team which uses least of its guarantee. Then comes the team
that would have least above its guarantee, with the work that is asked about.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.pods.pod import Pod
from scheduler.state.gangs.index import GangIndex
from scheduler.state.teams.books import TeamBooks

Turn = tuple[float, ...]
#: Pods that use no quota, or that Kueue admitted.
_FIRST: Final[Turn] = (-1, 0.0)
#: Pods with GPUs outside of all teams: they have no guarantee.
_LAST: Final[Turn] = (2, 0.0)


class TeamTurns:
    """Reads the books; a group counts with as many members as are placed together."""

    def __init__(self, teams: TeamBooks, gangs: GangIndex) -> None:
        self._teams = teams
        self._gangs = gangs

    @property
    def is_on(self) -> bool:
        """Whether there are teams."""
        return self._teams.table is not None

    def of(self, pod: Pod) -> Turn:
        """The place of a pod that is the next one of its namespace; the smallest one is decided."""
        table = self._teams.table
        if not pod.gpu_requests or (table is not None and table.kueue and pod.is_of_kueue):
            return _FIRST
        team = self._teams.team_of(pod.namespace)
        if team is None:
            return _LAST
        asked = self._teams.least_asked(pod)
        gang = self._gangs.of(pod) if pod.group else None
        if gang is not None:
            asked = asked.times(gang.need or 1)
        return self._teams.order(team, asked)
