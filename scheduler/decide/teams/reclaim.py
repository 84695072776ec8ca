"""Which work of other teams has to end so that entitled work of a team finds room.

Only for work with which its team stays inside its guarantee. Victims are whole groups of teams
that are above their guarantee at that moment; the placement is planned on a view without them
before any of them is chosen. So the reclaimer is no victim afterwards, and a victim is not
entitled to its place: two teams never evict each other in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler.decide.gang.rank import largest_first
from scheduler.decide.schedule_one import place
from scheduler.decide.view import WhatIfView
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.model.teams.amount import NOTHING, GpuAmount
from scheduler.model.teams.team import Team
from scheduler.state.cache.cluster import Cluster
from scheduler.state.teams.books import total

#: Nodes that are tried one by one for a single pod.
NODES_MAX: Final = 16
#: Whether a pod may be ended at all: it ran long enough, and its owner creates it again.
MayEnd = Callable[[Pod], bool]


class Reclaim(msgspec.Struct, frozen=True):
    """The pods to end, whole groups, and what they release."""

    victims: tuple[Pod, ...]
    released: GpuAmount


class NoReclaim(msgspec.Struct, frozen=True):
    """Nothing is taken back. ``is_fragmented`` where enough could be, but the work would not fit:
    on no node is enough of it.
    """

    is_fragmented: bool = False


class _Group(msgspec.Struct, frozen=True):
    """Work that ends as a whole: a gang's placed members, or one pod."""

    team: Team
    pods: tuple[Pod, ...]
    amount: GpuAmount

    @property
    def order(self) -> tuple[object, ...]:
        """The sort key of victims of one team: of low priority first, then the newest."""
        priority = max(pod.priority for pod in self.pods)
        newest = max(pod.created for pod in self.pods)
        return (-priority, newest, self.pods[0].uid)


def plan_reclaim(
    cluster: Cluster, asking: Sequence[Pod], pipeline: Pipeline, may_end: MayEnd
) -> Reclaim | NoReclaim:
    """What has to end for work of one team that waits; ``asking`` are all pods of it."""
    teams = cluster.teams
    team = teams.team_of(asking[0].namespace)
    asked = total(teams.least_asked(pod) for pod in asking)
    if team is None or not asked or not teams.is_entitled(team, asked):
        return NoReclaim()
    groups = list(_groups(cluster, team, may_end))
    found = [_try(cluster, asking, asked, groups, pipeline)]
    if len(asking) == 1:
        nodes = _by_node(groups)
        found += [_try(cluster, asking, asked, there, pipeline) for there in nodes]
    plans = [one for one in found if isinstance(one, Reclaim)]
    if not plans:
        return found[0]
    return min(plans, key=lambda one: (one.released.slices, one.released.mib))


def _by_node(groups: Iterable[_Group]) -> Iterator[list[_Group]]:
    """The groups with pods on one node, for the nodes where most can be released."""
    found: dict[str, list[_Group]] = {}
    for group in groups:
        for name in dict.fromkeys(pod.node_name for pod in group.pods):
            found.setdefault(name, []).append(group)
    there = sorted(found.values(), key=lambda one: -total(each.amount for each in one).slices)
    yield from there[:NODES_MAX]


def _try(
    cluster: Cluster,
    asking: Sequence[Pod],
    asked: GpuAmount,
    groups: Iterable[_Group],
    pipeline: Pipeline,
) -> Reclaim | NoReclaim:
    chosen: list[_Group] = []
    enough = cluster.teams.free
    for group in _in_order(cluster, groups):
        chosen.append(group)
        enough = enough.plus(group.amount)
        if asked.fits_in(enough) and _fits(cluster, asking, chosen, pipeline):
            return _least(cluster, asking, asked, chosen, pipeline)
    return NoReclaim(is_fragmented=bool(chosen) and asked.fits_in(enough))


def _in_order(cluster: Cluster, every: Iterable[_Group]) -> Iterator[_Group]:
    """The groups that may end, each of the team that is most above its guarantee by then."""
    by_team: dict[str, list[_Group]] = {}
    for group in every:
        by_team.setdefault(group.team.name, []).append(group)
    for groups in by_team.values():
        groups.sort(key=lambda one: one.order)
    view = WhatIfView(cluster)
    while True:
        above = [
            groups[-1].team for groups in by_team.values() if view.teams.above(groups[-1].team)
        ]
        if not above:
            return
        most = max(above, key=lambda team: (view.teams.order(team, NOTHING), team.name))
        group = by_team[most.name].pop()
        if not by_team[most.name]:
            del by_team[most.name]
        for pod in group.pods:
            view.remove(pod.uid, pod.node_name)
        yield group


def _groups(cluster: Cluster, asking: Team, may_end: MayEnd) -> Iterator[_Group]:
    """Work of other teams above their guarantee, of which every pod may end."""
    teams = cluster.teams
    gangs: set[object] = set()
    for pod in cluster.pods.values():
        team = teams.team_of(pod.namespace) if pod.node_name else None
        if team is None or team.name == asking.name or not teams.above(team):
            continue
        gang = cluster.gangs.of(pod) if pod.group else None
        if gang is not None and gang.key in gangs:
            continue
        if gang is not None:
            gangs.add(gang.key)
        members = tuple(gang.members[uid] for uid in sorted(gang.placed)) if gang else (pod,)
        amount = total(teams.held_by(one.uid) for one in members)
        if members and amount and all(_is_victim(one) and may_end(one) for one in members):
            yield _Group(team, members, amount)


def _is_victim(pod: Pod) -> bool:
    return (
        bool(pod.node_name)
        and pod.is_reclaimable
        and not pod.is_deleting
        and not pod.names_kueue
        and not pod.unread
    )


def _fits(
    cluster: Cluster, asking: Sequence[Pod], ending: Iterable[_Group], pipeline: Pipeline
) -> bool:
    """Whether all of the work finds nodes once these groups have ended."""
    view = WhatIfView(cluster)
    for group in ending:
        for pod in group.pods:
            view.remove(pod.uid, pod.node_name)
    for pod in largest_first(asking):
        placement = place(view, pod, pipeline)
        if placement is None:
            return False
        view.place_decided(placement)
    return True


def _least(
    cluster: Cluster,
    asking: Sequence[Pod],
    asked: GpuAmount,
    chosen: list[_Group],
    pipeline: Pipeline,
) -> Reclaim | NoReclaim:
    """Without the groups that can stay, the first choice last. More than what is asked for and one
    group is never released: that is work for defragmentation.
    """
    for group in list(chosen):
        rest = [one for one in chosen if one is not group]
        if _fits(cluster, asking, rest, pipeline):
            chosen = rest
    released = total(one.amount for one in chosen)
    largest = max((one.amount for one in chosen), key=lambda one: one.slices, default=NOTHING)
    if released.slices > asked.slices + largest.slices:
        return NoReclaim(is_fragmented=True)
    return Reclaim(tuple(pod for one in chosen for pod in one.pods), released)
