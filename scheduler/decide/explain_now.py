"""The explanation of a pod's rejection as it is now, with what keeps it from preempting others."""

from __future__ import annotations

import msgspec

from scheduler.decide.explain import (
    Outcome,
    PreemptionOutcome,
    SparedPods,
    explain,
    refusals_of,
    victim_outcomes,
)
from scheduler.decide.post_filter import context_of
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Preemption, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.plugins.preemption.hindrance import Hindrance, hindrance
from scheduler.state.cache.cluster import Cluster


def explain_now(cluster: Cluster, pod: Pod, pipeline: Pipeline) -> Outcome:
    """What would be decided about a pod, and why. It takes at most three times the steps of a
    decision, beside a walk over the pods of the nodes that it could use."""
    decision = schedule_one(cluster, pod, pipeline)
    outcome = explain(decision)
    if not isinstance(decision, Rejection) or isinstance(decision, Preemption):
        return outcome
    if decision.nominated_node:  # it waits for the end of pods already
        return outcome
    limit = pipeline.decision_steps_max
    found = hindrance(context_of(cluster, pipeline, decision, limit))
    if found is None:
        return outcome
    return msgspec.structs.replace(outcome, preemption=_preemption(found))


def _preemption(found: Hindrance) -> PreemptionOutcome | None:
    candidate = found.candidate
    if candidate is None and not found.barred and not found.unhelpful and not found.spared:
        return None
    spared = sorted(found.spared.items())
    return PreemptionOutcome(
        node=candidate.node_name if candidate is not None else "",
        victims=victim_outcomes(candidate.victims) if candidate is not None else (),
        violations=candidate.violations if candidate is not None else 0,
        refusals=refusals_of(found.unhelpful.items()),
        barred=found.barred,
        spared=tuple(SparedPods(cause, count) for cause, count in spared),
    )
