"""Decisions about single pods on one state, for explanations: a member's is that of its gang."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.decide.gang.plan import budget_of, plan_gang
from scheduler.decide.gang.preemption import preempt
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision, Rejection
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
        self._plans: dict[GangKey, dict[str, Decision]] = {}

    def of(self, pod: Pod, work: Budget | None = None) -> Decision:
        """The decision about a pod; ``work`` counts the steps of this call."""
        gang = self._cluster.gangs.of(pod) if pod.group else None
        if gang is None or pod.uid not in gang.waiting:
            return schedule_one(self._cluster, pod, self._pipeline, work)
        plan = self._plans.get(gang.key)
        if plan is None:
            plan = self._plans[gang.key] = self._plan(gang, work)
        return plan[pod.uid]

    def _plan(self, gang: Gang, work: Budget | None) -> dict[str, Decision]:
        """The decision about each member that waits."""
        waiting = list(gang.waiting_pods())
        if work is None:
            work = budget_of(waiting, self._pipeline)
        else:
            work.limit *= len(waiting)
        plan = plan_gang(self._cluster, gang, waiting, self._pipeline, work)
        every: Iterable[Decision] = (
            preempt(self._cluster, gang, waiting, self._pipeline, plan, work)
            if isinstance(plan, Rejection)
            else (*plan.placements, *plan.left)
        )
        return {one.pod.uid: one for one in every}
