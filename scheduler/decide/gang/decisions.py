"""Decisions about single pods on one state, for explanations: a member's is that of its gang."""

from __future__ import annotations

import msgspec

from scheduler.decide.gang.plan import GangPlan, plan_gang
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision, Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.gang import GangKey
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang


class Decisions:
    """What would be decided now; the plan of a gang is made once."""

    def __init__(self, cluster: Cluster, pipeline: Pipeline) -> None:
        self._cluster = cluster
        self._pipeline = pipeline
        self._plans: dict[GangKey, GangPlan | Rejection] = {}

    def of(self, pod: Pod, work: Budget | None = None) -> Decision:
        """The decision about a pod; ``work`` counts the steps of this call."""
        gang = self._cluster.gangs.of(pod) if pod.group else None
        if gang is None or pod.uid not in gang.waiting:
            return schedule_one(self._cluster, pod, self._pipeline, work)
        plan = self._plans.get(gang.key)
        if plan is None:
            plan = self._plans[gang.key] = self._plan(gang, work)
        if isinstance(plan, Rejection):
            return msgspec.structs.replace(plan, pod=pod)
        every: list[Placement | Rejection] = [*plan.placements, *plan.left]
        return next(one for one in every if one.pod.uid == pod.uid)

    def _plan(self, gang: Gang, work: Budget | None) -> GangPlan | Rejection:
        waiting = list(gang.waiting_pods())
        if work is not None:
            work.limit *= len(waiting)
        return plan_gang(self._cluster, gang, waiting, self._pipeline, work)
