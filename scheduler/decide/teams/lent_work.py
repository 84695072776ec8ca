"""The work that runs on what a team lends to others, and which of it may end.

A group of pods ends as a whole. Of work in this order the next one is always of the team that is
most above its guarantee by then; so each victim's team is above its own, whichever of them end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.crd.migration_consent import KINDS
from scheduler.model.pods.pod import Pod
from scheduler.model.teams.amount import NOTHING, GpuAmount
from scheduler.model.teams.team import Team
from scheduler.model.timestamps import epoch
from scheduler.state.gangs.gang import Gang
from scheduler.state.teams.awaited import awaited
from scheduler.state.teams.books import TeamBooks, WhatIfTeams, total

OPTED_OUT: Final = "annotated as not reclaimable"
PRIORITY: Final = "of higher priority"
NOT_AGAIN: Final = "without a controller that is known to create them again"
OTHERS: Final = "of another scheduler, of Kueue or not readable"
STARTING: Final = "of groups that start or end"
CLAIMS: Final = "with devices of ResourceClaims"
YOUNG: Final = "younger than the minimum run time"


class Wanted(msgspec.Struct, frozen=True):
    """Entitled work that asks for room: its team, the amount, and its lowest priority. ``awaited``
    is what other pods of the team are about to use.
    """

    team: Team
    amount: GpuAmount
    priority: int
    awaited: GpuAmount

    def of(self, amount: GpuAmount) -> Wanted:
        """The same where it is worth this amount: GPUs of some nodes are worth more."""
        return msgspec.structs.replace(self, amount=amount)

    def is_inside(self, teams: TeamBooks) -> bool:
        """Whether the team stays inside its guarantee with it."""
        return teams.is_entitled(self.team, self.amount.plus(self.awaited))


class LentWork(msgspec.Struct, frozen=True):
    """Pods that end as a whole: a gang's placed members, or one pod."""

    team: Team
    pods: tuple[Pod, ...]
    amount: GpuAmount

    @property
    def order(self) -> tuple[object, ...]:
        """The sort key inside a team, the last one ends first: of low priority, then the newest."""
        priority = max(pod.priority for pod in self.pods)
        newest = max(pod.created for pod in self.pods)
        return (-priority, newest, self.pods[0].uid)


class Lent(msgspec.Struct, frozen=True):
    """What may end, the first choice first; and by cause how many pods of the teams that borrow may
    not. ``later`` is the same with the work that is too young now; empty if there is none.
    ``ending`` are the pods that end already.
    """

    work: tuple[LentWork, ...]
    later: tuple[LentWork, ...]
    spared: dict[str, int]
    ending: tuple[Pod, ...]

    @property
    def amount(self) -> GpuAmount:
        """All that may be taken back."""
        return total(one.amount for one in self.work)


def is_entitled(teams: TeamBooks, wanted: Wanted) -> bool:
    """Whether the work may take back what others borrow; nothing does without teams that do."""
    if not wanted.amount or not wanted.is_inside(teams):
        return False
    assert teams.table is not None, "there are no teams"
    others = teams.table.teams.values()
    return any(teams.above(one) for one in others if one.name != wanted.team.name)


def wanted_by(view: View, team: Team, asking: Sequence[Pod], amount: GpuAmount) -> Wanted:
    """What these pods of one team ask for together."""
    priority = min(pod.priority for pod in asking)
    uids = {pod.uid for pod in asking}
    others = awaited(view.teams, team, view.nominated, uids, priority)
    return Wanted(team, amount, priority, others)


def lent_work(view: View, wanted: Wanted, settings: Settings) -> Lent:
    """What other teams run above their guarantees in what is short."""
    teams = view.teams
    ending, running = _by_end(view)
    gone = {pod.uid for pod in ending}
    books = _once_ended(teams, ending)
    assert teams.table is not None, "there are no teams"
    others = (one for one in teams.table.teams.values() if one.name != wanted.team.name)
    borrowing = {one.name for one in others if books.above(one)}
    gangs: set[object] = set()
    spared: Counter[str] = Counter()
    every: list[LentWork] = []
    young: list[LentWork] = []
    for pod in running:
        team = teams.team_of(pod.namespace)
        if team is None or team.name not in borrowing:
            continue
        gang = view.gangs.of(pod) if pod.group else None
        if gang is not None and gang.key in gangs:
            continue
        if gang is not None:
            gangs.add(gang.key)
        members = _still_placed(gang, gone) if gang is not None else (pod,)
        work = LentWork(team, members, total(teams.held_by(one.uid) for one in members))
        causes = {next(_causes(view, one, wanted, settings), "") for one in members} - {""}
        if not causes:
            every.append(work)
            continue
        if causes == {YOUNG}:
            young.append(work)
        spared[min(causes)] += len(members)
    free = teams.free
    lacks = (wanted.amount.slices > free.slices, wanted.amount.mib > free.mib)
    now = tuple(_in_order(_once_ended(teams, ending), lacks, every))
    both = [*every, *young] if young else []
    later = tuple(_in_order(_once_ended(teams, ending), lacks, both))
    return Lent(now, later, dict(spared), tuple(ending))


def _by_end(view: View) -> tuple[list[Pod], list[Pod]]:
    """The placed pods with GPUs that end already, and the others."""
    going = {uid for uids in view.preemptions.running.values() for uid in uids}
    placed = [pod for pod in view.pods.values() if pod.node_name and pod.gpu_requests]
    ending = [pod for pod in placed if pod.uid in going or pod.is_deleting]
    return ending, [pod for pod in placed if pod.uid not in going and not pod.is_deleting]


def _still_placed(gang: Gang, gone: Collection[str]) -> tuple[Pod, ...]:
    """The placed members of a gang without those that end already."""
    return tuple(gang.members[uid] for uid in sorted(gang.placed) if uid not in gone)


def _once_ended(teams: TeamBooks, ending: Iterable[Pod]) -> WhatIfTeams:
    """What the teams use once these pods have ended: nothing more is taken back for them."""
    books = WhatIfTeams(teams)
    for pod in ending:
        books.add(pod.namespace, teams.held_by(pod.uid), -1)
    return books


def has_claims(view: View, pod: Pod, node_name: str) -> bool:
    """Whether ResourceClaims give the pod devices on this node, which end after the pod."""
    node_info = view.at(node_name)
    if node_info is None:
        return False
    return bool(pod.resource_claims.claims) or any(map(node_info.is_served_by_dra, pod.requests))


def _causes(view: View, pod: Pod, wanted: Wanted, settings: Settings) -> Iterator[str]:
    """Why a pod is not taken back; none if it may be. That it is young comes last."""
    is_ours = pod.scheduler_name == settings.scheduler_name or settings.preemption == "all"
    if not is_ours or pod.names_kueue or pod.unread:
        yield OTHERS
    if not pod.is_reclaimable:
        yield OPTED_OUT
    if pod.priority > wanted.priority:
        yield PRIORITY
    if pod.owner is None or pod.owner.word not in KINDS:
        yield NOT_AGAIN
    if not pod.node_name or pod.is_deleting:
        yield STARTING
    if has_claims(view, pod, pod.node_name):
        yield CLAIMS
    if _is_young(view.teams, pod):
        yield YOUNG


def _is_young(teams: TeamBooks, pod: Pod) -> bool:
    assert teams.table is not None, "there are no teams"
    least_s = teams.table.min_runtime_s
    if not least_s:
        return False
    started = epoch(pod.started)
    return started is None or teams.now - started < least_s


def _in_order(
    books: WhatIfTeams, lacks: tuple[bool, bool], every: Iterable[LentWork]
) -> Iterator[LentWork]:
    """The work, each of the team that is most above its guarantee once the former has ended."""
    by_team: dict[str, list[LentWork]] = {}
    for one in every:
        by_team.setdefault(one.team.name, []).append(one)
    for of_team in by_team.values():
        of_team.sort(key=lambda one: one.order)
    while True:
        borrowers = [of[-1].team for of in by_team.values() if _is_above(books, of[-1].team, lacks)]
        if not borrowers:
            return
        most = max(borrowers, key=lambda team: (books.order(team, NOTHING), team.name))
        work = by_team[most.name].pop()
        if not by_team[most.name]:
            del by_team[most.name]
        books.add(work.pods[0].namespace, work.amount, -1)
        yield work


def _is_above(books: TeamBooks, team: Team, lacks: tuple[bool, bool]) -> bool:
    """Whether a team is above its guarantee in what is short; if nothing is, in anything."""
    above = books.above(team)
    if not any(lacks):
        return bool(above)
    return (lacks[0] and above.slices > 0) or (lacks[1] and above.mib > 0)
