"""A plan keeps what members find at nodes that earlier members got, until such a node changes."""

from __future__ import annotations

import pytest

from scheduler.decide.gang.plan import GangPlan, plan_gang
from scheduler.decide.gang.rank import in_rank_order
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.gangs import member, members, one_by_one

CASES = [
    pytest.param(members(7, 7, gpus=1), id="full-nodes-take-no-more"),
    pytest.param(members(6, 6, requests={"cpu": "1"}), id="emptiest-node-changes"),
    pytest.param(
        [
            *(member(f"gpu-{number}", 6, gpus=1) for number in range(3)),
            *(member(f"cpu-{number}", 6) for number in range(3)),
        ],
        id="classes-change-each-others-nodes",
    ),
    pytest.param(
        [*members(2, 4, gpus=2), member("small-0", 4, gpus=1), member("small-1", 4, gpus=1)],
        id="smaller-members-fill-up",
    ),
]


def with_pods() -> Cluster:
    state = cluster(*(node(f"n{number}", gpus=3, cpu="8") for number in range(3)))
    running = pod("running", requests={"cpu": "3"})
    fold(state, ev.PodUpdated(running))
    state.assume(running, Assumption("n1", Devices()))
    return state


@pytest.mark.parametrize("waiting", CASES)
def test_kept_answers_of_a_plan_change_no_place(waiting: list[Pod]) -> None:
    state = with_pods()
    for one in waiting:
        fold(state, ev.PodUpdated(one))
    gang = state.gangs.of(waiting[0])
    assert gang is not None

    plan = plan_gang(state, gang, waiting, ALLOW_ALL_MAPS)

    assert isinstance(plan, GangPlan)
    expected = one_by_one(state, waiting, ALLOW_ALL_MAPS)
    assert len(expected) == len(waiting)
    assert plan.placements == in_rank_order(state, expected, ALLOW_ALL_MAPS)
