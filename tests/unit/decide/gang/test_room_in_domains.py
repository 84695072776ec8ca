"""A gang with a required level takes room from others in one domain only."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.decide.gang.in_domains import COMPARED_MAX, PLANS_MAX
from scheduler.decide.gang.plan import budget_of
from scheduler.decide.gang.preemption import preempt
from scheduler.decide.gang.reserve import room_for
from scheduler.framework.decision import Preemption, Rejection
from scheduler.framework.settings import Settings
from scheduler.model.pods.gang import PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import cluster
from tests.gangs import members
from tests.topology import BLOCK, RACK, domains, plan, preferred, rack, required
from tests.unit.decide.gang.test_roles import RAY, of_ray
from tests.unit.plugins.preemption.scene import running

PREEMPTING = default_pipeline(
    Settings(maps_allow="all", topology_levels=(BLOCK, RACK), preemption="own")
)
RACKS = (*rack("r1", 2, 2), *rack("r2", 2, 2))


def gang_of(count: int) -> list[Pod]:
    return members(count, count, gpus=1, priority=9, annotations=required(RACK))


def refused(state: Cluster, pods: list[Pod]) -> Rejection:
    found = plan(state, pods)
    assert isinstance(found, Rejection)
    return found


def nominated(state: Cluster, pods: list[Pod]) -> set[str]:
    rejection, gang = refused(state, pods), state.gangs.of(pods[0])
    assert gang is not None
    found = preempt(state, gang, pods, PREEMPTING, rejection, budget_of(pods, PREEMPTING))
    return {one.nominated_node for one in found}


def reserved(state: Cluster, pods: list[Pod]) -> set[str]:
    refused(state, pods)
    gang = state.gangs.of(pods[0])
    assert gang is not None
    found = room_for(state, gang, pods, PREEMPTING, budget_of(pods, PREEMPTING))
    return {one.node_name for one in found}


def one_pod_in_each_rack(**fields: int) -> Cluster:
    names = ("b1-r1-1", "b1-r2-1")
    return cluster(*RACKS, *(running(name, on=name, gpus=1, **fields) for name in names))


def test_a_gang_preempts_in_one_domain() -> None:
    assert nominated(one_pod_in_each_rack(), gang_of(4)) == {"b1-r1-1", "b1-r1-2"}


def test_a_gang_that_no_domain_would_hold_preempts_nothing() -> None:
    """The two racks together would do."""
    assert nominated(one_pod_in_each_rack(), gang_of(5)) == {""}


def test_a_gang_reserves_in_one_domain() -> None:
    state = one_pod_in_each_rack(priority=9)

    assert reserved(state, gang_of(4)) == {"b1-r1-1", "b1-r1-2"}
    assert reserved(one_pod_in_each_rack(priority=9), gang_of(5)) == set()


def test_a_domain_has_to_hold_the_minimum_of_each_role() -> None:
    """Three of the small members fill the tighter rack, which has no room for the big one."""
    state = cluster(*rack("r1", 1, 1, 1), *rack("r2", 4))
    kinds = [("big", 2), *[("small", 1)] * 3]
    pods = [of_ray(f"m-{at}", role, gpus=gpus) for at, (role, gpus) in enumerate(kinds)]
    asked = [
        msgspec.structs.replace(one, annotations={**one.annotations, **required(RACK)})
        for one in pods
    ]
    for one in asked:
        fold(state, ev.PodUpdated(one))
    fold(state, ev.PodGroupUpdated(PodGroup("team", "tune", 3, RAY, {"big": 1, "small": 2})))

    assert domains(state, plan(state, asked)) == ["r2"]


def victims_of(state: Cluster, pods: list[Pod]) -> list[str]:
    rejection, gang = refused(state, pods), state.gangs.of(pods[0])
    assert gang is not None
    found = preempt(state, gang, pods, PREEMPTING, rejection, budget_of(pods, PREEMPTING))
    return sorted(
        one.name for each in found if isinstance(each, Preemption) for one in each.victims
    )


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([("r1", 0), ("r1", 0), ("r2", 0)], ["r2-2"], id="fewest"),
        pytest.param([("r1", 2), ("r2", 1), ("r2", 1)], ["r2-1", "r2-2"], id="least important"),
        pytest.param([("r1", 1), ("r2", 1)], ["r1-0"], id="equal ones by name"),
    ],
)
def test_a_gang_preempts_in_the_cheapest_domain(
    pods: list[tuple[str, int]], expected: list[str]
) -> None:
    """Racks of one size."""
    state = cluster(
        *RACKS,
        *(
            running(f"{name}-{at}", on=f"b1-{name}-1", gpus=1, priority=priority)
            for at, (name, priority) in enumerate(pods)
        ),
    )

    assert victims_of(state, gang_of(4)) == expected


def test_a_gang_preempts_in_the_nearest_domains() -> None:
    """A preferred level: two victims would do for two racks."""
    state = cluster(
        *(*rack("r1", 4), *rack("r2", 2), *rack("r3", 2)),
        *(running(f"r1-{at}", on="b1-r1-1", gpus=1) for at in range(4)),
        *(running(name, on=f"b1-{name}-1", gpus=1) for name in ("r2", "r3")),
    )
    pods = members(4, 4, gpus=1, priority=9, annotations=preferred(RACK))

    assert victims_of(state, pods) == ["r1-0", "r1-1", "r1-2", "r1-3"]


def test_the_cheapest_of_many_domains_is_tried() -> None:
    """Eight plans are made; the rack with the most free room is the last one by name."""
    names = [f"r{at}" for at in range(1, PLANS_MAX + 2)]
    state = cluster(
        *(one for name in names for one in rack(name, 4)),
        *(
            running(f"{name}-{at}", on=f"b1-{name}-1", gpus=1)
            for name in names
            for at in range(1 if name == names[-1] else 2)
        ),
    )

    assert victims_of(state, gang_of(4)) == [f"{names[-1]}-0"]


@pytest.mark.parametrize(
    ("count", "expected"), [(COMPARED_MAX // 2, "r2"), (COMPARED_MAX // 2 + 1, "r1")]
)
def test_of_a_large_group_fewer_domains_are_compared(count: int, expected: str) -> None:
    """It would hold all other decisions up."""
    half = count // 2
    state = cluster(
        *(one for name in ("r1", "r2") for one in rack(name, half, count - half)),
        *(running(f"r{at}", on=f"b1-r{at}-1", gpus=1, priority=3 - at) for at in (1, 2)),
    )

    assert victims_of(state, gang_of(count)) == [expected]
