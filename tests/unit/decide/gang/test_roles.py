"""A minimum for each role: members of one role do not stand for those of another."""

from __future__ import annotations

import pytest

from scheduler.decide.gang.plan import GangPlan, plan_gang
from scheduler.framework.decision import Rejection
from scheduler.model import well_known
from scheduler.model.pods.gang import GangKey, GangSource, PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.state.gangs.gang import Gang
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod

RAY = GangSource.RAY_CLUSTER.value
KEY = GangKey("team", RAY, "tune")


def of_ray(name: str, group: str, **fields: int | str) -> Pod:
    """A pod of a Ray cluster that asks for its owner's gang."""
    labels = {"ray.io/cluster": "tune", "ray.io/group": group}
    annotations = {well_known.GROUP_FROM: "owner"}
    return pod(name, labels=labels, annotations=annotations, **fields)  # type: ignore[arg-type] # fields of a pod


def world(roles: dict[str, int], *pods: Pod, gpus: int = 4) -> tuple[Cluster, Gang]:
    state = cluster(node(gpus=gpus))
    for one in pods:
        fold(state, ev.PodUpdated(one))
    group = PodGroup("team", "tune", sum(roles.values()), RAY, roles)
    fold(state, ev.PodGroupUpdated(group))
    gang = state.gangs.at(KEY)
    assert gang is not None
    return state, gang


def plan(state: Cluster, gang: Gang) -> GangPlan | Rejection:
    return plan_gang(state, gang, list(gang.waiting_pods()), ALLOW_ALL_MAPS)


def refusal(state: Cluster, gang: Gang) -> str:
    found = plan(state, gang)
    assert isinstance(found, Rejection)
    return sentence(found.diagnosis)


HEAD = of_ray("head", "headgroup")
CPU_WORKERS = [of_ray(f"cpu-{number}", "cpu") for number in range(8)]


def test_workers_without_gpus_do_not_stand_for_those_with() -> None:
    """RAY#4656: 8 workers without GPUs and the head started, and no worker with a GPU."""
    roles = {"headgroup": 1, "cpu": 4, "gpu": 4}
    state, gang = world(roles, HEAD, *CPU_WORKERS)

    assert not gang.is_complete
    assert refusal(state, gang) == (
        "0/1 nodes are available: waiting for members 5/9 of group tune; 0/4 of gpu."
    )


def test_a_plan_without_room_for_one_role_is_none() -> None:
    """Enough members fit, but only one of the two with a GPU."""
    gpu_workers = [of_ray(f"gpu-{number}", "gpu", gpus=1) for number in range(2)]
    roles = {"headgroup": 1, "cpu": 2, "gpu": 2}
    state, gang = world(roles, HEAD, *CPU_WORKERS, *gpu_workers, gpus=1)

    assert refusal(state, gang).endswith(
        "group tune: 4 of the 5 members that have to be placed together fit; gpu-1 does not."
    )


@pytest.mark.parametrize("more", [0, 6], ids=["exactly", "and more of one role"])
def test_every_role_gets_its_minimum(more: int) -> None:
    """The larger members above their role's minimum leave room for the small ones below theirs."""
    big = [of_ray(f"big-{number}", "big", gpus=2) for number in range(1 + more)]
    small = [of_ray(f"small-{number}", "small", gpus=1) for number in range(2)]
    state, gang = world({"big": 1, "small": 2}, *big, *small)

    found = plan(state, gang)

    assert isinstance(found, GangPlan)
    assert {one.pod.name for one in found.placements} == {"big-0", "small-0", "small-1"}
    assert len(found.left) == more


def test_a_lost_member_of_a_role_is_replaced_alone() -> None:
    gpu = [of_ray(f"gpu-{number}", "gpu", gpus=1, node="n1") for number in range(2)]
    head = of_ray("head", "headgroup", node="n1")
    state, gang = world({"headgroup": 1, "gpu": 3}, head, *gpu, of_ray("new", "gpu", gpus=1))

    assert (gang.need, dict(gang.needs)) == (1, {"headgroup": 0, "gpu": 1})
    assert isinstance(plan(state, gang), GangPlan)
