"""Gives victims back that a gang does not need, from the most important one.

A victim stays where its node takes the members beside it. A gang among the victims is given back as
a whole first, and then as far as its minimum stays with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from scheduler.decide.gang.attempt import view_beside
from scheduler.decide.schedule_one import place
from scheduler.decide.view import WhatIfView
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.gang import GangKey
from scheduler.model.pods.pod import Pod
from scheduler.plugins.preemption.importance import by_importance
from scheduler.plugins.preemption.victims import split
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.victims import ending_with, others_of


class Taken(NamedTuple):
    """A pod that is taken off its node."""

    pod: Pod
    node_name: str


def fewest_victims(
    cluster: Cluster,
    waiting: Sequence[Pod],
    placements: Sequence[Placement],
    weaker: Sequence[Taken],
    pipeline: Pipeline,
    work: Budget,
) -> tuple[tuple[Taken, ...], int] | None:
    """The victims that are left, the most important first, and how many of them violate a
    disruption budget; None if the placements hold with no such choice, or the budget is spent.
    """
    gangs = cluster.gangs
    members = [(one.pod, gangs.of(one.pod)) for one in weaker if one.pod.group]
    whole = {pod.uid for pod, gang in members if gang is not None and others_of(gang, pod.uid)}
    budgets = tuple(cluster.preemptions.budgets.values())
    ordered = by_importance([one.pod for one in weaker], whole)
    violating, others = split(ordered, budgets)
    where = {one.pod.uid: one for one in weaker}
    nodes = _Nodes(cluster, waiting, placements, weaker, pipeline, work)
    for unit in _units(cluster, [*violating, *others]):
        every = [where[pod.uid] for pod in unit]
        if not nodes.give_back(every) and len(every) > 1:
            back = [one for one in every if nodes.give_back([one])]
            lost = [one.pod for one in every if one.pod.uid in nodes.out]
            if ending_with(gangs, lost):
                nodes.take(back)
    if work.is_over:
        return None
    left = [pod for pod in ordered if pod.uid in nodes.out]
    if ending_with(gangs, left):
        return None  # members that stay would be of no use
    taken = tuple(where[pod.uid] for pod in left)
    if not nodes.hold_without(taken):
        return None
    return taken, len(split(left, budgets)[0])


def _units(cluster: Cluster, pods: Sequence[Pod]) -> list[list[Pod]]:
    """The pods in their order; those of one gang together, at the place of the first one."""
    units: dict[str | GangKey, list[Pod]] = {}
    for pod in pods:
        key = cluster.gangs.key_of(pod) if pod.group else None
        units.setdefault(pod.uid if key is None else key, []).append(pod)
    return list(units.values())


class _Nodes:
    """The nodes with a member, and which victims are ``out``."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: Sequence[Pod],
        placements: Sequence[Placement],
        weaker: Sequence[Taken],
        pipeline: Pipeline,
        work: Budget,
    ) -> None:
        self._cluster, self._waiting = cluster, waiting
        self._pipeline, self._work = pipeline, work
        self.out = {one.pod.uid for one in weaker}
        self._pinned = [_pinned(one) for one in placements]
        self._by_node: dict[str, list[Pod]] = {}
        for pod in self._pinned:
            self._by_node.setdefault(pod.nominated_node, []).append(pod)
        self._weaker: dict[str, list[Taken]] = {}
        for one in weaker:
            self._weaker.setdefault(one.node_name, []).append(one)

    def give_back(self, every: Sequence[Taken]) -> bool:
        """Give victims back if their nodes still take the members there."""
        uids = {one.pod.uid for one in every}
        self.out -= uids
        names = {one.node_name for one in every}
        if all(self._holds(name) for name in names if name in self._by_node):
            return True
        self.out |= uids
        return False

    def take(self, every: Sequence[Taken]) -> None:
        """Take victims that were given back."""
        self.out |= {one.pod.uid for one in every}

    def hold_without(self, taken: Sequence[Taken]) -> bool:
        """Whether all members hold their places at once without these victims only."""
        return self._place(self._pinned, taken)

    def _holds(self, name: str) -> bool:
        gone = [one for one in self._weaker[name] if one.pod.uid in self.out]
        return self._place(self._by_node[name], gone)

    def _place(self, pods: Sequence[Pod], gone: Sequence[Taken]) -> bool:
        view: WhatIfView = view_beside(self._cluster, self._waiting, gone)
        for pod in pods:
            found = place(view, pod, self._pipeline, self._work)
            if found is None or found.node_name != pod.nominated_node:
                return False
            view.place_decided(found)
        return True


def _pinned(placement: Placement) -> Pod:
    return msgspec.structs.replace(placement.pod, nominated_node=placement.node_name)
