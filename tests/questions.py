"""The answers about a pending pod, computed without a pause."""

from __future__ import annotations

from scheduler.decide import explain_now as now
from scheduler.decide.explain import Outcome
from scheduler.decide.remedy import outlook as later
from scheduler.decide.remedy.outlook import Outlook
from scheduler.decide.remedy.question import budget
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.parts import finish


def explain_now(state: Cluster, pod: Pod, pipeline: Pipeline) -> Outcome:
    """What would be decided about the pod."""
    return finish(now.explain_now(state, pod, pipeline, budget(pipeline)))


def outlook(state: Cluster, pod: Pod, pipeline: Pipeline, outcome: Outcome) -> Outlook:
    """What the pod can expect by this decision."""
    return finish(later.outlook(state, pod, pipeline, outcome, budget(pipeline)))
