"""Which work of other teams has to end so that a gang inside its team's guarantee finds room.

The gang is planned as a whole without the work: first without all that may end, then with as much
of it as can stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from scheduler.decide.gang.attempt import find_only
from scheduler.decide.gang.give_back import Taken
from scheduler.decide.gang.need import Need
from scheduler.decide.gang.plan import Planning
from scheduler.decide.gang.rank import largest_first
from scheduler.decide.teams.lent_work import (
    LentWork,
    Wanted,
    has_claims,
    is_entitled,
    lent_work,
    wanted_by,
)
from scheduler.decide.teams.reclaim import (
    PODS_OF_A_STEP,
    found_text,
    is_too_much,
    later_text,
    victims_of,
    why_not,
)
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang
from scheduler.state.teams.books import total


class GroupReclaim(msgspec.Struct, frozen=True):
    """The places of the members without these pods; none where nothing is taken back. ``text`` says
    which or why.
    """

    text: str
    placements: tuple[Placement, ...] = ()
    taken: tuple[Taken, ...] = ()


def reclaim_for_group(
    cluster: Cluster, gang: Gang, waiting: Sequence[Pod], pipeline: Pipeline, work: Budget
) -> GroupReclaim | None:
    """What is taken back for a gang; None where its team may take nothing back."""
    need, team = Need.of(gang, waiting), cluster.teams.team_asking(waiting[0])
    if need is None or team is None:
        return None
    needed = largest_first(waiting)[: need.count]
    amount = total(cluster.teams.least_asked(pod) for pod in needed)
    wanted = wanted_by(cluster, team, waiting, amount)
    if not is_entitled(cluster.teams, wanted):
        return None
    work.spend(len(cluster.pods) // PODS_OF_A_STEP)
    lent = lent_work(cluster, wanted, pipeline)
    search = _Search(cluster, gang, waiting, need, pipeline, work, lent.ending, wanted)
    found = search.least(lent.work)
    if found is not None and not is_too_much(found.work, found.wanted):
        taken = tuple(Taken(pod, pod.node_name) for pod in victims_of(found.work))
        text = found_text(_what(gang, found.placements), found.work)
        return GroupReclaim(text, found.placements, taken)
    found = search.least(lent.later) if lent.later else None
    if found is not None and not is_too_much(found.work, found.wanted):
        text = later_text(_what(gang, found.placements), found.work)
        return GroupReclaim(text, found.placements)
    return GroupReclaim(why_not(lent, wanted, cluster.teams.free))


def _what(gang: Gang, placements: Sequence[Placement]) -> str:
    return f"{len(placements)} pods of group {gang.key.name}"


class _Found(msgspec.Struct, frozen=True):
    """``wanted`` is what the gang is worth in these places."""

    wanted: Wanted
    work: tuple[LentWork, ...]
    placements: tuple[Placement, ...]


class _Search:
    """Plans the gang without some of the work; ``ending`` are pods that end in any case."""

    def __init__(
        self,
        cluster: Cluster,
        gang: Gang,
        waiting: Sequence[Pod],
        need: Need,
        pipeline: Pipeline,
        work: Budget,
        ending: Iterable[Pod],
        wanted: Wanted,
    ) -> None:
        self._cluster, self._work, self._wanted = cluster, work, wanted
        self._planning = Planning(cluster, gang, waiting, need, pipeline, work, find_only)
        self._ending = list(ending)

    def least(self, work: Sequence[LentWork]) -> _Found | None:
        """As little work as possible, the first choice first; None if the gang never fits, or no
        step is left to find the least.
        """
        found = self._plan(())
        if found is not None:
            return found
        found = self._plan(work) if work else None
        if found is None:
            return None
        low, high = 1, len(work)
        while low < high:
            middle = (low + high) // 2
            shorter = self._plan(work[:middle])
            if shorter is None:
                low = middle + 1
            else:
                high, found = middle, shorter
        # The last one is needed; of the others those stay that can, the last choice first.
        for one in found.work[-2::-1]:
            fewer = self._plan([other for other in found.work if other is not one])
            found = fewer or found
        return None if self._work.is_over else found

    def _plan(self, work: Sequence[LentWork]) -> _Found | None:
        pods = [*self._ending, *victims_of(work)]
        if not self._work.spend(len(pods)):
            return None
        without = [Taken(pod, pod.node_name) for pod in pods if self._is_placed(pod)]
        plan = self._planning.plan_needed(without)
        if plan is None or any(
            has_claims(self._cluster, one.pod, one.node_name) for one in plan.placements
        ):
            return None
        teams = self._cluster.teams
        wanted = self._wanted.of(
            total(teams.asked(one.pod, teams.kind_at(one.node_name)) for one in plan.placements)
        )
        return _Found(wanted, tuple(work), plan.placements) if wanted.is_inside(teams) else None

    def _is_placed(self, pod: Pod) -> bool:
        node_info = self._cluster.at(pod.node_name)
        return node_info is not None and pod.uid in node_info.pods
