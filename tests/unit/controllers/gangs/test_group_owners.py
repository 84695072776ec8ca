"""Owners are read while pods that ask for their gang wait."""

from __future__ import annotations

from scheduler.controllers.gangs.group_owners import AGAIN_S, GroupOwners
from scheduler.model import well_known
from scheduler.model.actions import ReadGroupOwner
from scheduler.model.pods.gang import GangKey, GangSource, PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import cluster, node, pod

RAY = GangSource.RAY_CLUSTER.value
KEY = GangKey("team", RAY, "tune")


def worker(name: str = "a", *, bound: bool = False) -> Pod:
    labels = {"ray.io/cluster": "tune", "ray.io/group": "gpu"}
    annotations = {well_known.GROUP_FROM: "owner"}
    return pod(name, labels=labels, annotations=annotations, node="n1" if bound else "")


def world(*pods: Pod) -> tuple[Cluster, GroupOwners]:
    state = cluster(node())
    for one in pods:
        fold(state, ev.PodUpdated(one))
    return state, GroupOwners(state)


def test_an_owner_is_read_again_while_a_pod_waits() -> None:
    """RAY#5205: a size that changed later counts."""
    _, owners = world(worker())

    asked = [owners.tick(now, leads=True) for now in (0.0, 1.0, AGAIN_S, AGAIN_S + 1)]

    assert asked == [(ReadGroupOwner(KEY),), (), (ReadGroupOwner(KEY),), ()]


def test_no_owner_of_running_pods_is_read() -> None:
    state, owners = world(worker())
    owners.tick(0.0, leads=True)
    fold(state, ev.PodUpdated(worker(bound=True)))

    assert owners.tick(AGAIN_S, leads=True) == ()
    assert state.gangs.to_read == set()


def test_a_follower_reads_no_owner() -> None:
    _, owners = world(worker())

    assert owners.tick(0.0, leads=False) == ()


def test_an_answer_for_pods_that_are_gone_is_dropped() -> None:
    state, _ = world(worker())
    fold(state, ev.PodDeleted("team-a"))
    fold(state, ev.PodGroupUpdated(PodGroup("team", "tune", 2, RAY)))

    assert state.gangs.groups() == {}


def test_a_gang_whose_owner_is_not_read_waits() -> None:
    state, _ = world(worker())
    gang = state.gangs.of(worker())

    assert gang is not None
    assert not gang.is_complete
