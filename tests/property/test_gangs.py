"""A gang gets nodes for all that have to start together, or the cluster stays as it was."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide.gang.attempt import Attempt, view_beside
from scheduler.decide.gang.capacity import shortage
from scheduler.decide.gang.need import Need
from scheduler.decide.gang.plan import GangPlan, budget_of, plan_gang
from scheduler.decide.gang.rank import in_rank_order
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.settings import Settings
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold
from scheduler.state.queue.gang_queue import GangQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, take
from tests.builders import ALLOW_ALL_MAPS, GPU, PodFields, cluster, dynamic, node, pod
from tests.gangs import member, one_by_one

SPREADING = default_pipeline(Settings(maps_allow="all", placement="spread"))

SIZES: tuple[PodFields, ...] = (
    {"gpus": 1},
    {"gpus": 2},
    {"mig": {"1g.10gb": 1}},
    {"mig": {"3g.40gb": 1}},
    {},
)


class Case(NamedTuple):
    nodes: list[int]
    dynamic: int
    running: list[int]
    sizes: list[int]
    minimum: int
    bound: int


CASES = st.builds(
    Case,
    nodes=st.lists(st.integers(0, 4), min_size=0, max_size=5),
    dynamic=st.integers(0, 2),
    running=st.lists(st.integers(0, 2), max_size=4),
    sizes=st.lists(st.integers(0, len(SIZES) - 1), min_size=1, max_size=8),
    minimum=st.integers(1, 9),
    bound=st.integers(0, 3),
)


def built(case: Case) -> tuple[Cluster, list[Pod]]:
    """The cluster and the members of the gang that wait."""
    state = cluster(
        *(node(f"n{number}", gpus=gpus) for number, gpus in enumerate(case.nodes)),
        *(dynamic(f"d{number}") for number in range(case.dynamic)),
    )
    for number, size in enumerate(case.running):
        settle(state, pod(f"r{number}", **SIZES[size]))
    every = [
        member(f"m-{number}", case.minimum, **SIZES[size]) for number, size in enumerate(case.sizes)
    ]
    for one in every:
        fold(state, ev.PodUpdated(one))
    bound = [one for one in every[: case.bound] if settle(state, one)]
    return state, [one for one in every if one not in bound]


def settle(state: Cluster, one: Pod) -> bool:
    decision = schedule_one(state, one, ALLOW_ALL_MAPS)
    if isinstance(decision, Placement):
        state.assume(one, Assumption(decision.node_name, decision.devices))
    return isinstance(decision, Placement)


def picture(state: Cluster) -> tuple[ClusterSnapshot, object]:
    """Everything that decisions read."""
    books = {
        name: (sorted(info.pods), info.free(GPU)) for name, info in state.nodes.node_info.items()
    }
    return take(state, GangQueue(state.gangs), Reservations(), 0, 0.0), books


@given(CASES)
def test_a_plan_has_all_that_is_needed_or_nothing(case: Case) -> None:
    state, waiting = built(case)
    gang = state.gangs.of(waiting[0]) if waiting else None
    if gang is None:
        return
    before, generation = picture(state), state.topology.generation

    plan = plan_gang(state, gang, waiting, ALLOW_ALL_MAPS)

    assert (picture(state), state.topology.generation) == (before, generation)
    if isinstance(plan, Rejection):
        assert plan.pod in waiting
        return
    assert len(plan.placements) >= min(case.minimum - len(gang.placed), len(waiting))
    placed = {one.pod.uid for one in plan.placements}
    left = {one.pod.uid for one in plan.left}
    assert placed | left == {one.uid for one in waiting}
    assert not placed & left
    carry_out(state, plan)


def carry_out(state: Cluster, plan: GangPlan) -> None:
    """Every placement fits on the cluster, where the plan was made on a view."""
    for one in plan.placements:
        info = state.at(one.node_name)
        assert info is not None
        assert info.free(GPU) >= one.pod.requests.get(GPU, 0)
        state.assume(one.pod, Assumption(one.node_name, one.devices))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 12), st.integers(1, 3))
def test_equal_members_fit_exactly_where_arithmetic_says(
    nodes: list[int], count: int, size: int
) -> None:
    state = cluster(*(node(f"n{number}", gpus=gpus) for number, gpus in enumerate(nodes)))
    every = [member(f"m-{number}", count, gpus=size) for number in range(count)]
    for one in every:
        fold(state, ev.PodUpdated(one))
    gang = state.gangs.of(every[0])
    assert gang is not None

    plan = plan_gang(state, gang, every, ALLOW_ALL_MAPS)

    assert isinstance(plan, GangPlan) == (sum(gpus // size for gpus in nodes) >= count)


@given(CASES)
def test_equal_states_have_equal_plans(case: Case) -> None:
    plans = []
    for _ in range(2):
        state, waiting = built(case)
        gang = state.gangs.of(waiting[0]) if waiting else None
        if gang is None:
            return
        plans.append(plan_gang(state, gang, waiting, ALLOW_ALL_MAPS))
    assert type(plans[0]) is type(plans[1])
    if isinstance(plans[0], GangPlan):
        assert plans[0] == plans[1]


@pytest.mark.parametrize("pipeline", [ALLOW_ALL_MAPS, SPREADING], ids=["pack", "spread"])
@given(case=CASES, repeated=st.integers(1, 4))
def test_a_plan_is_what_is_decided_one_by_one(
    pipeline: Pipeline, case: Case, repeated: int
) -> None:
    """What the plan keeps between two members changes no place."""
    case = case._replace(sizes=case.sizes * repeated, minimum=1)
    state, waiting = built(case)
    gang = state.gangs.of(waiting[0]) if waiting else None
    if gang is None:
        return

    plan = plan_gang(state, gang, waiting, pipeline)

    expected = in_rank_order(state, one_by_one(state, waiting, pipeline), pipeline)
    assert (plan.placements if isinstance(plan, GangPlan) else ()) == expected


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.lists(st.integers(0, 2), max_size=4),
    st.integers(1, 12),
    st.integers(1, 3),
)
def test_totals_refuse_a_gang_as_its_plan_would(
    nodes: list[int], running: list[int], count: int, size: int
) -> None:
    state = cluster(*(node(f"n{number}", gpus=gpus) for number, gpus in enumerate(nodes)))
    for number, kind in enumerate(running):
        settle(state, pod(f"r{number}", **SIZES[kind]))
    every = [member(f"m-{number}", count, gpus=size) for number in range(count)]
    for one in every:
        fold(state, ev.PodUpdated(one))

    need = Need(count)
    found = shortage(state, every, need, ALLOW_ALL_MAPS, budget_of(every, ALLOW_ALL_MAPS))

    work = budget_of(every, ALLOW_ALL_MAPS)
    attempt = Attempt(state, view_beside(state, every), every, need, ALLOW_ALL_MAPS, work)
    attempt.place_all()
    assert (found is None) == (len(attempt.placements) == count)
    if found is not None:
        first = attempt.rejected[0]
        assert found.placed == len(attempt.placements)
        assert found.rejection.pod is first.pod
        assert sentence(found.rejection.diagnosis) == sentence(first.diagnosis)


@given(CASES)
def test_totals_refuse_no_gang_that_fits(case: Case) -> None:
    state, waiting = built(case)
    gang = state.gangs.of(waiting[0]) if waiting else None
    if gang is None or not gang.is_complete:
        return
    need = Need(gang.need or 0)
    work = budget_of(waiting, ALLOW_ALL_MAPS)
    attempt = Attempt(state, view_beside(state, waiting), waiting, need, ALLOW_ALL_MAPS, work)
    attempt.place_all()

    if shortage(state, waiting, need, ALLOW_ALL_MAPS, budget_of(waiting, ALLOW_ALL_MAPS)):
        assert not attempt.is_enough
