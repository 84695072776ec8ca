"""What a gang with a minimum for each role takes from others: no more than each role needs."""

from __future__ import annotations

import pytest

from scheduler.decide.gang.need import Need
from scheduler.decide.gang.plan import GangPlan, budget_of, plan_gang
from scheduler.decide.gang.preemption import preempt
from scheduler.decide.gang.reserve import room_for
from scheduler.framework.decision import Preemption, Rejection
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang
from scheduler.state.gangs.victims import ends_alone
from tests.builders import ALLOW_ALL_MAPS, pod
from tests.unit.decide.gang.test_roles import of_ray, world
from tests.unit.plugins.preemption.scene import OWN, running

NEEDS = {"big": 1, "small": 2}


def high(name: str, role: str, gpus: int) -> Pod:
    return of_ray(name, role, gpus=gpus, priority=9)


BIG = [high(f"big-{number}", "big", 2) for number in range(3)]
SMALL = [high(f"small-{number}", "small", 1) for number in range(3)]


def victims(state: Cluster, gang: Gang) -> list[str]:
    waiting = list(gang.waiting_pods())
    work = budget_of(waiting, OWN)
    plan = plan_gang(state, gang, waiting, OWN, work)
    assert isinstance(plan, Rejection)
    found = preempt(state, gang, waiting, OWN, plan, work)
    every = [one.victims for one in found if isinstance(one, Preemption)]
    return sorted(one.name for there in every for one in there)


def test_a_gang_preempts_for_the_minimum_of_each_role() -> None:
    low = [running(f"low-{number}", gpus=1) for number in range(6)]
    state, gang = world(NEEDS, *low, *BIG, *SMALL, gpus=6)

    assert len(victims(state, gang)) == 4


def test_a_gang_preempts_nothing_where_one_role_would_not_fit() -> None:
    """Without the weaker pods three members fit, and no big one among them."""
    weak = [running(f"low-{number}", gpus=1) for number in range(3)]
    strong = pod("strong", gpus=2, node="n1", phase="Running", priority=10)
    state, gang = world(NEEDS, *weak, strong, high("big-0", "big", 4), *SMALL, gpus=5)

    assert victims(state, gang) == []


def test_a_gang_reserves_for_the_minimum_of_each_role() -> None:
    """The third small one would fit at once, the big one after the end of another pod."""
    later = running("later", gpus=3)
    state, gang = world(NEEDS, later, high("big-0", "big", 4), *SMALL, gpus=6)
    waiting = list(gang.waiting_pods())

    found = room_for(state, gang, waiting, OWN, budget_of(waiting, OWN))

    assert sorted(one.pod.name for one in found) == ["big-0", "small-0", "small-1"]


def test_totals_count_what_each_role_needs_first() -> None:
    """The workers above the minimum come before the head, and ask for the same."""
    workers = [of_ray(f"a-{number}", "workers", gpus=1) for number in range(3)]
    head = of_ray("head", "headgroup", gpus=1)
    state, gang = world({"headgroup": 1, "workers": 1}, *workers, head, gpus=2)

    found = plan_gang(state, gang, list(gang.waiting_pods()), ALLOW_ALL_MAPS)

    assert isinstance(found, GangPlan)


def test_members_of_one_role_do_not_add_up_for_another() -> None:
    need = Need(3, NEEDS)

    assert [need.met_by(BIG), need.met_by(SMALL), need.met_by([*BIG, *SMALL])] == [1, 2, 3]
    assert need.without([BIG[0], SMALL[0]]) == Need(1, {"big": 0, "small": 1})


@pytest.mark.parametrize(("lost", "alone"), [("head", False), ("w-0", True)])
def test_a_gang_that_loses_a_role_ends_as_a_whole(lost: str, alone: bool) -> None:
    """Three workers run, one more than their minimum: the count alone would do without a head."""
    workers = [of_ray(f"w-{number}", "workers", node="n1") for number in range(3)]
    head = of_ray("head", "headgroup", node="n1")
    _, gang = world({"headgroup": 1, "workers": 2}, head, *workers)
    uid = next(one.uid for one in gang.members.values() if one.name == lost)

    assert ends_alone(gang, uid) is alone
