"""Running pods, their preemptors, and the three modes of preemption."""

from __future__ import annotations

from typing import Any

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Preemption, Rejection
from scheduler.framework.settings import Settings
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import pod_selector
from scheduler.model.selector import LabelSelector
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Cluster
from tests.builders import pod

OWN = default_pipeline(Settings(maps_allow="all", preemption="own"))
ALL = default_pipeline(Settings(maps_allow="all", preemption="all"))
OFF = default_pipeline(Settings(maps_allow="all"))


def running(name: str, at: int = 0, on: str = "n1", **fields: Any) -> Pod:
    """A pod that started ``at`` this second."""
    started = {"startTime": f"2026-11-27T10:00:{at:02}Z"}
    return pod(name, node=on, phase="Running", status=started, **fields)


def preemption(state: Cluster, newcomer: Pod, pipeline: Any = OWN) -> Preemption:
    decision = schedule_one(state, newcomer, pipeline)
    assert isinstance(decision, Preemption), decision
    return decision


def victims(state: Cluster, newcomer: Pod, pipeline: Any = OWN) -> list[str]:
    """The names of the pods that have to go, the most important first."""
    return [one.name for one in preemption(state, newcomer, pipeline).victims]


def rejection(state: Cluster, newcomer: Pod, pipeline: Any = OWN) -> Rejection:
    decision = schedule_one(state, newcomer, pipeline)
    assert isinstance(decision, Rejection)
    assert not isinstance(decision, Preemption), decision.victims
    return decision


def budget(
    name: str, labels: dict[str, str] | None, allowed: int, disrupted: frozenset[str] = frozenset()
) -> DisruptionBudget:
    selector = pod_selector(None if labels is None else LabelSelector(match_labels=labels))
    return DisruptionBudget(
        namespace="team", name=name, selector=selector, allowed=allowed, disrupted=disrupted
    )
