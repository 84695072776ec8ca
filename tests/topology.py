"""Nodes in racks and blocks, requests for these levels, and the plans of gangs there."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.decide.gang.plan import GangPlan, plan_gang
from scheduler.framework.decision import Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Assumption, Cluster
from tests.builders import node

BLOCK, RACK = "example.com/block", "example.com/rack"
#: The levels of the configuration in these tests.
LEVELS: Pipeline = default_pipeline(Settings(maps_allow="all", topology_levels=(BLOCK, RACK)))


def rack(name: str, *gpus: int, block: str = "b1") -> list[Node]:
    """Nodes of a rack with so many GPUs each."""
    labels = {BLOCK: block, RACK: name}
    every = enumerate(gpus, 1)
    return [node(f"{block}-{name}-{at}", gpus=count, labels=labels) for at, count in every]


def required(key: str) -> dict[str, str]:
    """The annotation of pods that stay within one domain."""
    return {well_known.TOPOLOGY_REQUIRED: key}


def preferred(key: str) -> dict[str, str]:
    """The annotation of pods that use as few domains as possible."""
    return {well_known.TOPOLOGY_PREFERRED: key}


def plan(state: Cluster, pods: Iterable[Pod]) -> GangPlan | Rejection:
    pods = list(pods)
    for one in pods:
        state.upsert_pod(one)
    gang = state.gangs.of(pods[0])
    assert gang is not None
    return plan_gang(state, gang, [one for one in pods if one.uid in gang.waiting], LEVELS)


def assume(state: Cluster, found: GangPlan | Rejection) -> None:
    assert isinstance(found, GangPlan), sentence(found.diagnosis)
    for one in found.placements:
        state.assume(one.pod, Assumption(one.node_name, one.devices))


def domains(state: Cluster, found: GangPlan | Rejection, key: str = RACK) -> list[str]:
    """The values of a label that the members of a plan get, each once."""
    assert isinstance(found, GangPlan), sentence(found.diagnosis)
    nodes = [state.nodes.at(one.node_name) for one in found.placements]
    return sorted({one.node.labels.get(key, "-") for one in nodes if one and one.node})


def message(found: GangPlan | Rejection) -> str:
    assert isinstance(found, Rejection), found
    return sentence(found.diagnosis)
