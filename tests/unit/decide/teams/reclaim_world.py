"""Teams with borrowed work that runs, and what is decided for a pod of another team."""

from __future__ import annotations

from typing import Any

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Preemption, Rejection
from scheduler.framework.settings import Settings
from scheduler.model.dra.objects import DraObject
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.teams.team import TeamTable
from scheduler.model.timestamps import rfc3339
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Cluster
from tests.builders import cluster, node, pod
from tests.teams import A100, table, team

OWN = default_pipeline(Settings(maps_allow="all", preemption="own"))
TEAMS = table(team("a", 4), team("b", 2), team("c", 2))
NOW = 1_800_000_000.0


def running(name: str, namespace: str, count: int = 1, at: str = "n1", **fields: Any) -> Pod:
    """A pod that runs for an hour, of a ReplicaSet."""
    started = {"startTime": rfc3339(NOW - fields.pop("for_s", 3600))}
    own = {"owner": "ReplicaSet/web", "status": started, **fields}
    return pod(name, node=at, namespace=namespace, gpus=count, **own)


def world(teams: TeamTable, *objects: Node | Pod | DraObject) -> Cluster:
    """A state with these teams and objects, at the time ``NOW``."""
    state = cluster(teams, *objects)
    state.pass_time(NOW)
    return state


def full(*more: Pod) -> Cluster:
    """Eight GPUs: b has four of them and c three, both above their guarantees of two."""
    borrowed = [running(f"b-{at}", "b", created=at) for at in range(4)]
    others = [running(f"c-{at}", "c", created=10 + at) for at in range(3)]
    return world(TEAMS, node("n1", gpus=8, labels=A100), *borrowed, *others, *more)


def asks(count: int, namespace: str = "a", **fields: Any) -> Pod:
    """The pod that asks for GPUs."""
    return pod("p", namespace=namespace, gpus=count, **fields)


def decided(state: Cluster, asking: Pod) -> Rejection:
    """The decision about a pod that has no place."""
    found = schedule_one(state, asking, OWN)
    assert not isinstance(found, Placement), found
    return found


def ending(state: Cluster, asking: Pod) -> set[str]:
    """The names of the victims."""
    found = decided(state, asking)
    return {one.name for one in found.victims} if isinstance(found, Preemption) else set()


def said(state: Cluster, asking: Pod) -> str:
    """What the pod is told about the reclaim."""
    return decided(state, asking).diagnosis.post_filter.rpartition("reclaim: ")[2]
