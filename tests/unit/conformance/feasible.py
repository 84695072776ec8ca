"""The nodes that pass every filter for a pod, each asked by itself."""

from __future__ import annotations

from scheduler.decide import best_fit
from scheduler.framework.budget import Budget
from scheduler.framework.pipeline import Pipeline, PreFiltered
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS


def feasible(state: Cluster, newcomer: Pod, pipeline: Pipeline = ALLOW_ALL_MAPS) -> set[str]:
    """The names of the feasible nodes."""
    rejected = rejections(state, newcomer, pipeline)
    names = {one.node.name for one in state.candidates() if one.node is not None}
    return names - rejected.keys()


def rejections(
    state: Cluster, newcomer: Pod, pipeline: Pipeline = ALLOW_ALL_MAPS
) -> dict[str, str]:
    """The text of the first reason of each node that rejects the pod."""
    filtered = pipeline.pre_filter(state, newcomer)
    assert isinstance(filtered, PreFiltered), filtered.reason.text
    _, found = best_fit.scan(state.candidates(), newcomer, Budget(10**9), pipeline, filtered.bound)
    return {name: reasons[0].text for name, reasons in found.items()}
