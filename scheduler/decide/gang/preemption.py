"""Preemption for a gang as one: the pods that have to go so that its minimum fits.

All weaker pods are taken off a view, the gang is planned there once, and the pods are given back
from the most important one (``pkg/scheduler/framework/preemption`` for pod groups, KEP-5710). If
the gang does not fit the emptied view no pod goes. Devices that claims of the victims hold are not
counted as free. A gang that requests a level of the topology is planned in several domains, and
takes the one with the cheapest victims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.decide.gang.attempt import find_only
from scheduler.decide.gang.give_back import Taken, fewest_victims
from scheduler.decide.gang.need import Need
from scheduler.decide.gang.plan import Planning, budget_of
from scheduler.decide.teams import reclaim
from scheduler.decide.teams.reclaim_group import reclaim_for_group
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement, Preemption, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.reason_codes import INTERNAL, TOO_COMPLEX
from scheduler.model.pods.pod import Pod
from scheduler.plugins.preemption.importance import cheapest
from scheduler.plugins.preemption.plugin import (
    EXHAUSTED,
    NEVER,
    PREFIX,
    STEPS,
    TERMINATING,
    awaited_end,
)
from scheduler.plugins.preemption.possible_victims import possible_victims
from scheduler.plugins.topology.codes import NO_DOMAIN_FITS
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang

NOT_HELPFUL: Final = "the group does not fit without all pods of lower priority either."


def preempt(
    cluster: Cluster,
    gang: Gang,
    waiting: Sequence[Pod],
    pipeline: Pipeline,
    rejection: Rejection,
    work: Budget,
) -> list[Rejection]:
    """The rejections of all members as preemption leaves them: a ``Preemption`` for each member
    that gets a place, the first one of a node with the victims there.
    """
    if pipeline.preemption == "off" or _is_out_of_question(rejection):
        return _for_all(waiting, rejection)
    if any(pod.never_preempts for pod in waiting):
        return _for_all(waiting, _told(rejection, NEVER))
    refused = _not_yet(cluster, waiting, pipeline)
    if refused:
        return [_waiting_on(cluster, pod, _told(rejection, refused)) for pod in waiting]
    own = budget_of(waiting, pipeline)
    found = _search(cluster, gang, waiting, pipeline, own)
    work.spend(own.spent)
    if found is None:
        text = f"{STEPS} after 0 nodes" if own.is_over else NOT_HELPFUL
        return _taken_back(cluster, gang, waiting, pipeline, _told(rejection, text), work)
    text = (
        f"found a potential placement for {len(found.placements)} pods of group {gang.key.name},"
        f" preempting {len(found.taken)} victims"
    )
    return _preemptions(waiting, _told(rejection, text), found)


def _taken_back(
    cluster: Cluster,
    gang: Gang,
    waiting: Sequence[Pod],
    pipeline: Pipeline,
    rejection: Rejection,
    work: Budget,
) -> list[Rejection]:
    """Where no pods of lower priority make room: what the gang's team is guaranteed."""
    team = cluster.teams.team_asking(waiting[0])
    if team is None:
        return _for_all(waiting, rejection)
    rejection = reclaim.asking(rejection, team)
    own = budget_of(waiting, pipeline)
    found = reclaim_for_group(cluster, gang, waiting, pipeline, own)
    work.spend(own.spent)
    if found is None:
        return _for_all(waiting, rejection)
    told = reclaim.told(rejection, found.text)
    if not found.placements:
        return _for_all(waiting, told)
    return _preemptions(waiting, told, _Found(found.placements, found.taken, 0, is_reclaim=True))


def _is_out_of_question(rejection: Rejection) -> bool:
    """Whether the end of no pod would help: nothing is said about it."""
    diagnosis = rejection.diagnosis
    if diagnosis.impossible is not None or diagnosis.codes() & {TOO_COMPLEX, INTERNAL}:
        return True
    general = diagnosis.general
    return general is not None and general.code is not NO_DOMAIN_FITS and not rejection.candidates


def _not_yet(cluster: Cluster, waiting: Sequence[Pod], pipeline: Pipeline) -> str:
    """Why the gang may not preempt now; empty if it may."""
    preemptions = cluster.preemptions
    if any(pod.uid in preemptions.running for pod in waiting):
        return TERMINATING
    for pod in waiting:
        nominated = cluster.nominated.get(pod.uid)
        if nominated is not None and not cluster.nominations.is_reserved(pod.uid):
            awaited = awaited_end(cluster, pod, nominated.nominated_node, pipeline)
            if awaited:
                return awaited
    return EXHAUSTED if any(preemptions.is_exhausted(pod.uid) for pod in waiting) else ""


class _Found(msgspec.Struct, frozen=True):
    """``taken`` are all victims with their nodes, the most important first."""

    placements: tuple[Placement, ...]
    taken: tuple[Taken, ...]
    violations: int
    is_reclaim: bool = False

    @property
    def victims(self) -> tuple[Pod, ...]:
        """The pods that have to go."""
        return tuple(one.pod for one in self.taken)


def _search(
    cluster: Cluster, gang: Gang, waiting: Sequence[Pod], pipeline: Pipeline, work: Budget
) -> _Found | None:
    need = Need.of(gang, waiting)
    weakest = min(waiting, key=lambda pod: pod.priority)
    names = cluster.nodes.priorities.below(weakest.priority, ours=pipeline.preemption != "all")
    weaker = [
        Taken(pod, name)
        for name in sorted(set(names))
        for pod in possible_victims(cluster, weakest, name, pipeline)
    ]
    if not weaker or need is None:
        return None
    planning = Planning(cluster, gang, waiting, need, pipeline, work, find_only)
    found: list[_Found] = []
    for plan in planning.plans_needed(weaker):
        chosen = fewest_victims(cluster, waiting, plan.placements, weaker, pipeline, work)
        if chosen is not None:
            found.append(_Found(plan.placements, *chosen))
            if not found[-1].taken:
                return found[-1]
        if work.is_over:
            break
    return cheapest(found)[0] if found else None


def _preemptions(waiting: Sequence[Pod], told: Rejection, found: _Found) -> list[Rejection]:
    """What each member is told; victims on nodes without a member go with the first member."""
    first: dict[str, str] = {}
    for one in found.placements:
        first.setdefault(one.node_name, one.pod.uid)
    leader = found.placements[0].pod.uid
    victims: dict[str, list[Pod]] = {}
    for taken in found.taken:
        victims.setdefault(first.get(taken.node_name, leader), []).append(taken.pod)
    by_uid = {one.pod.uid: one for one in found.placements}
    answers: list[Rejection] = []
    for pod in waiting:
        placement = by_uid.get(pod.uid)
        if placement is None:
            answers.append(msgspec.structs.replace(told, pod=pod))
            continue
        preemption = Preemption(
            pod=pod,
            diagnosis=told.diagnosis,
            node_name=told.node_name,
            nominated_node=placement.node_name,
            victims=tuple(victims.get(pod.uid, ())),
            violations=found.violations,
            devices=placement.devices,
            claims=placement.claims,
            is_reclaim=found.is_reclaim,
        )
        answers.append(preemption)
    return answers


def _for_all(waiting: Sequence[Pod], rejection: Rejection) -> list[Rejection]:
    return [msgspec.structs.replace(rejection, pod=pod) for pod in waiting]


def _waiting_on(cluster: Cluster, pod: Pod, rejection: Rejection) -> Rejection:
    """A member waits where it is nominated."""
    is_reserved = cluster.nominations.is_reserved(pod.uid)
    nominated = None if is_reserved else cluster.nominated.get(pod.uid)
    name = nominated.nominated_node if nominated is not None else ""
    return msgspec.structs.replace(rejection, pod=pod, nominated_node=name)


def _told(rejection: Rejection, text: str) -> Rejection:
    diagnosis = rejection.diagnosis.with_post_filter(PREFIX + text)
    return msgspec.structs.replace(rejection, diagnosis=diagnosis)
