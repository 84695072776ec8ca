"""The explanation of a pod's rejection as it is now, with what keeps it from preempting others."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.decide.explain import (
    Outcome,
    PreemptionOutcome,
    SparedPods,
    explain,
    refusals_of,
    victim_outcomes,
)
from scheduler.decide.gang.decisions import Decisions
from scheduler.decide.post_filter import context_of
from scheduler.framework.budget import Budget, SearchBudget
from scheduler.framework.decision import Decision, Preemption, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.plugins.preemption.hindrance import Hindrance, hindrance, spared_pods
from scheduler.state.cache.cluster import Cluster
from scheduler.state.parts import Parts


def explain_now(
    cluster: Cluster, pod: Pod, pipeline: Pipeline, work: SearchBudget
) -> Parts[Outcome]:
    """What would be decided about a pod, and why.

    The decision and the search for victims are one part, on one state: together they take at most
    twice the steps of a decision.
    """
    own = Budget(pipeline.decision_steps_max)
    decision = Decisions(cluster, pipeline).of(pod, own)
    is_final = _waits_for_pods(decision) or cluster.gangs.of(pod) is not None
    if not isinstance(decision, Rejection) or is_final:
        yield work.part(own.spent)
        return explain(decision)
    context = context_of(cluster, pipeline, decision, max(0, 2 * own.limit - own.spent))
    found = hindrance(context)
    yield work.part(own.spent + context.work.spent)
    outcome = explain(decision)
    work.spend(len(outcome.refusals))
    yield len(outcome.refusals)
    if found is None:
        return outcome
    spared = yield from spared_pods(context, work)
    return msgspec.structs.replace(outcome, preemption=_preemption(found, spared))


def _waits_for_pods(decision: Decision) -> bool:
    """Whether pods end for the rejected pod, or will."""
    if not isinstance(decision, Rejection):
        return False
    return isinstance(decision, Preemption) or bool(decision.nominated_node)


def _preemption(found: Hindrance, spared: Mapping[str, int]) -> PreemptionOutcome | None:
    candidate = found.candidate
    if candidate is None and not found.barred and not found.unhelpful and not spared:
        return None
    return PreemptionOutcome(
        node=candidate.node_name if candidate is not None else "",
        victims=victim_outcomes(candidate.victims) if candidate is not None else (),
        violations=candidate.violations if candidate is not None else 0,
        refusals=refusals_of(found.unhelpful.items()),
        barred=found.barred,
        spared=tuple(SparedPods(cause, count) for cause, count in sorted(spared.items())),
    )
