"""Which pods are decided again while work on their nodes is too young to be taken back."""

from __future__ import annotations

from scheduler.controllers.expiry import ReclaimRetry
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.cache.nominator import Reserved
from tests.builders import cluster, node, pod
from tests.gangs import members
from tests.teams import A100, table, team

KUEUE = {"kueue.x-k8s.io/managed": "true"}


def waiting(*pods: Pod) -> Cluster:
    """These pods are nominated for a node that another team uses."""
    teams = table(team("a", 4), team("b"))
    borrowed = pod("b", namespace="b", gpus=4, node="n1")
    state = cluster(teams, node("n1", gpus=4, labels=A100), borrowed, *pods)
    for one in pods:
        state.nominate(one, "n1", Devices())
    return state


def woken(state: Cluster) -> list[str]:
    effects = ReclaimRetry(state).tick(0.0, leads=True)
    return [one.pod.name for one in effects if isinstance(one, ev.PodActivated)]


def test_of_a_group_one_pod_is_decided_again() -> None:
    group = members(2, 2, namespace="a", gpus=1)

    assert woken(waiting(*group, pod("single", namespace="a", gpus=1))) == ["train-0", "single"]


def test_a_pod_that_holds_its_room_is_not_decided_again() -> None:
    first = pod("first", namespace="a", gpus=1)
    state = waiting(first, pod("second", namespace="a", gpus=1))
    state.nominations.reserved = Reserved({first.uid: None}, 60.0)

    assert woken(state) == ["second"]


def test_a_pod_of_kueue_is_not_decided_again() -> None:
    assert woken(waiting(pod("p", namespace="a", gpus=1, labels=KUEUE))) == []
