"""The whole answer about a pending pod, in parts of at most two decisions each.

It changes nothing, and takes a bounded number of steps: a search that comes to the limit says how
far it came.
"""

from __future__ import annotations

from typing import Final

from scheduler.decide.explain import Outcome
from scheduler.decide.explain_now import explain_now
from scheduler.decide.remedy.outlook import Outlook, outlook
from scheduler.framework.budget import SearchBudget
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.parts import Parts

#: An answer takes at most so many times the steps of one decision.
DECISIONS_MAX: Final = 4


def budget(pipeline: Pipeline) -> SearchBudget:
    """The steps of one answer."""
    return SearchBudget(DECISIONS_MAX * pipeline.decision_steps_max)


def answer(
    cluster: Cluster, pod: Pod, pipeline: Pipeline, work: SearchBudget | None = None
) -> Parts[tuple[Outcome, Outlook]]:
    """What would be decided about the pod now, and what it can expect."""
    work = work or budget(pipeline)
    now = yield from explain_now(cluster, pod, pipeline, work)
    expected = yield from outlook(cluster, pod, pipeline, now, work)
    return now, expected
