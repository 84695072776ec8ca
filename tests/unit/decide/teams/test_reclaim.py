"""Which work ends so that entitled work of a team finds room."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.decide.gang.plan import plan_gang
from scheduler.decide.gang.preemption import preempt
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.teams.reclaim_group import reclaim_for_group
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Preemption, Rejection
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.model.teams.amount import GpuAmount
from scheduler.model.teams.team import Team
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Cluster
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import restore, take
from scheduler.state.teams.books import total
from tests.builders import node, pod
from tests.gangs import members
from tests.teams import A100, INSIDE, amount, gpus, table, team
from tests.unit.decide.teams.reclaim_world import (
    OWN,
    asks,
    decided,
    ending,
    full,
    running,
    said,
    world,
)


def test_two_large_groups_do_not_end_for_one_small_pod() -> None:
    """KAI#1565: one member of each is in the way; that is work for defragmentation."""
    minimum = {well_known.GROUP_MIN: "3"}
    groups = [
        running(
            f"{name}-{at}",
            "b",
            at="n2" if at else "n1",
            labels={well_known.GROUP: name},
            annotations=minimum,
        )
        for name in ("x", "y")
        for at in range(3)
    ]
    nodes = [
        node("n1", gpus=2, labels=A100 | {"pool": "small"}),
        node("n2", gpus=4, labels=A100),
    ]
    state = world(table(team("a", 2), team("b")), *nodes, *groups)

    assert ending(state, asks(2, selector={"pool": "small"})) == set()
    assert len(ending(state, asks(1, selector={"pool": "small"}))) == 3


@pytest.mark.parametrize("fields", [{"for_s": 299}, {"status": {}}])
def test_room_is_kept_until_work_there_is_old_enough(fields: dict[str, Any]) -> None:
    """Else others would borrow meanwhile what is free."""
    state = world(
        table(team("a", 2), team("b")),
        node("n1", gpus=2, labels=A100),
        running("b", "b", **fields),
    )
    found = decided(state, asks(2))

    assert isinstance(found, Preemption)
    assert (found.nominated_node, found.victims) == ("n1", ())
    assert "once 7 slices and 80 GB may be taken back" in said(state, asks(2))

    state.nominate(found.pod, "n1", found.devices, None)
    assert isinstance(schedule_one(state, asks(1, "b"), OWN), Rejection)


def test_preemption_that_is_off_takes_nothing_back() -> None:
    pipeline = default_pipeline(Settings(maps_allow="all"))

    assert not isinstance(schedule_one(full(running("o", "other")), asks(1), pipeline), Preemption)


def test_the_placement_is_planned_before_anything_ends() -> None:
    """KUE#5243: enough is borrowed, and no node has room for four."""
    borrowed = [running(f"b-{at}", "b", 2, f"n{at}") for at in range(2)]
    held = [running(f"c-{at}", "c", 2, f"n{at}", annotations=INSIDE) for at in range(2)]
    nodes = [node(f"n{at}", gpus=4, labels=A100) for at in range(2)]
    state = world(table(team("a", 4), team("b"), team("c", 4)), *nodes, *borrowed, *held)

    assert ending(state, asks(4)) == set()
    assert said(state, asks(4)) == (
        "fragmented: 28 slices and 320 GB are asked for, 0 slices and 0 GB are free and 28 slices"
        " and 320 GB may be taken back, and not in one place."
    )


def test_no_more_ends_than_is_asked_for_and_one_group() -> None:
    """KAI#1565: one job of 48 GPUs evicted 376 GPUs of others."""
    nodes = [node(f"n{at}", gpus=8, labels=A100) for at in range(4)]
    borrowed = [
        running(f"b-{at}-{gpu}", "b", 1, f"n{at}", created=gpu)
        for at in range(4)
        for gpu in range(8)
    ]
    found = decided(world(table(team("a", 16), team("b")), *nodes, *borrowed), asks(8))

    assert isinstance(found, Preemption)
    assert released(found) == gpus(8)
    assert len({one.node_name for one in found.victims}) == 1


def released(found: Preemption) -> GpuAmount:
    return total(gpus(one.requests["nvidia.com/gpu"]) for one in found.victims)


def test_of_several_nodes_the_one_is_taken_where_least_ends() -> None:
    state = world(
        table(team("a", 2), team("b")),
        node("n1", gpus=2, labels=A100),
        node("n2", gpus=1, labels=A100),
        running("large", "b", 2, created=9),
        running("small", "b", 1, "n2"),
    )

    assert ending(state, asks(1)) == {"small"}


def for_group(state: Cluster, *asking: Pod) -> list[Rejection]:
    """What the members of a waiting group are told."""
    for one in asking:
        state.upsert_pod(one)
    gang = state.gangs.of(asking[0])
    assert gang is not None
    plan = plan_gang(state, gang, asking, OWN)
    assert isinstance(plan, Rejection)
    return preempt(state, gang, asking, OWN, plan, Budget(10**6))


def test_a_group_that_asks_is_planned_as_a_whole() -> None:
    answers = for_group(full(running("o", "other")), *members(2, 2, namespace="a", gpus=1))

    assert all(isinstance(one, Preemption) for one in answers)
    victims = [pod.name for one in answers if isinstance(one, Preemption) for pod in one.victims]
    assert len(victims) == 2
    assert "reclaim: found a potential placement for 2 pods of group train, taking back 14" in (
        answers[0].diagnosis.post_filter
    )


def test_a_group_takes_nothing_back_that_would_not_be_enough() -> None:
    state = full(running("o", "other"))
    for at in range(3):
        state.upsert_pod(running(f"c-{at}", "c", annotations=INSIDE))
        state.upsert_pod(running(f"b-{at}", "b", annotations=INSIDE))

    answers = for_group(state, *members(2, 2, namespace="a", gpus=1))

    assert not any(isinstance(one, Preemption) for one in answers)
    assert "14 slices and 160 GB are asked for" in answers[0].diagnosis.post_filter


def test_a_group_takes_no_more_when_its_steps_end() -> None:
    """The search begins with all that may end, and then leaves out what can stay."""
    first, second = members(2, 2, namespace="a", gpus=1)
    state = full(running("o", "other"))
    for one in (first, second):
        state.upsert_pod(one)
    gang = state.gangs.of(first)
    assert gang is not None
    taken: list[int] = []
    for steps in range(0, 400, 5):
        found = reclaim_for_group(state, gang, [first, second], OWN, Budget(steps))
        assert found is not None
        taken.append(len(found.taken))

    assert set(taken) == {0, 2}


def test_the_second_plan_sees_the_first() -> None:
    """Kueue issue 14570: two heads got the same node in one cycle."""
    state = full(running("o", "other"))
    first = asks(1)
    state.upsert_pod(first)
    begun = decided(state, first)
    assert isinstance(begun, Preemption)
    state.nominate(first, begun.nominated_node, begun.devices, None)
    state.preemptions.begin(first.uid, frozenset(one.uid for one in begun.victims), 0.0)

    second = pod("q", namespace="a", gpus=1)

    victims = ending(state, second)
    assert len(victims) == 1
    assert victims.isdisjoint(one.name for one in begun.victims)


def test_what_ends_already_is_not_above_the_guarantee() -> None:
    """Else a team would lose more than it borrows, and take that back from others in turn."""
    borrowed = [running(f"b-{at}", "b", created=at) for at in range(4)]
    others = [running(f"c-{at}", "c", created=10 + at) for at in range(3)]
    state = world(
        table(team("a", 4), team("b", 2), team("c", 2)),
        *(node("n1", gpus=7, labels=A100), node("n2", gpus=1, labels=A100, cordoned=True)),
        *(*borrowed, *others),
    )
    taken: list[str] = []
    for name in ("p", "q", "r", "s"):
        asking = pod(name, namespace="a", gpus=1)
        state.upsert_pod(asking)
        found = decided(state, asking)
        if isinstance(found, Preemption):
            state.nominate(asking, found.nominated_node, found.devices, None)
            uids = frozenset(one.uid for one in found.victims)
            state.preemptions.begin(asking.uid, uids, 0.0)
            taken += [one.name for one in found.victims]

    assert sorted(taken) == ["b-2", "b-3", "c-2"]


def test_all_pods_of_a_team_together_take_back_what_it_lacks() -> None:
    """The place of the first is nominated, and not in use yet."""
    state = world(
        table(team("a", 1), team("b")),
        node("n1", gpus=2, labels=A100),
        running("b-0", "b", created=1),
        running("b-1", "b", created=2),
    )
    first = asks(1)
    assert ending(state, first) == {"b-1"}
    state.nominate(first, "n1", Devices())

    assert ending(state, pod("q", namespace="a", gpus=1)) == set()
    assert ending(state, first) == {"b-1"}


def test_no_more_ends_where_enough_ends_already() -> None:
    dying = msgspec.structs.replace(running("b", "b", 2), is_deleting=True)
    state = world(
        table(team("a", 2), team("b")),
        node("n1", gpus=3, labels=A100),
        dying,
        running("b-1", "b"),
    )
    found = decided(state, asks(1))

    assert isinstance(found, Preemption)
    assert (found.nominated_node, found.victims) == ("n1", ())


def test_a_snapshot_knows_ages_and_whose_end_is_asked_for() -> None:
    """Else a repeated decision would choose other victims."""
    state = full(running("o", "other"))
    begun = asks(1)
    state.upsert_pod(begun)
    state.preemptions.begin(begun.uid, frozenset(("b-b-3",)), 0.0)
    queue, reservations = SchedulingQueue(), Reservations()
    again = restore(take(state, queue, reservations, 0, 0.0))

    second = pod("q", namespace="a", gpus=2)
    assert again.preemptions.running == state.preemptions.running
    assert ending(again, second) == ending(state, second) != set()


# --- kinds of GPU ---------------------------------------------------------------------------

MIG = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
WHOLE: dict[str, Any] = {"selector": {"card": "whole"}}


def two_kinds(slices: float, gb: float) -> Cluster:
    """One whole GPU and seven instances, all of which b uses; what a is guaranteed."""
    teams = table(Team(name="a", guarantee=amount(slices, gb)), team("b"))
    return world(
        teams,
        node("n1", gpus=1, labels=A100 | {"card": "whole"}),
        node("n2", gpus=7, labels=MIG),
        running("whole", "b", created=9),
        *(running(f"part-{at}", "b", 1, "n2", created=at) for at in range(7)),
    )


def test_no_more_is_taken_back_than_what_the_device_is_worth() -> None:
    """Else the team that lost a whole GPU is inside its guarantee, and takes it back in turn."""
    state = two_kinds(3, 30)

    assert ending(state, asks(1, "a", **WHOLE)) == set()
    assert ending(state, asks(1)) == {"part-6"}
    assert ending(two_kinds(7, 80), asks(1, "a", **WHOLE)) == {"whole"}


def test_a_group_is_inside_the_guarantee_where_it_gets_its_place() -> None:
    for slices, gb, victims in ((3, 30, set()), (8, 90, {"whole", "part-6"})):
        first, second = members(2, 2, namespace="a", gpus=1)
        whole = msgspec.structs.replace(first, node_selector={"card": "whole"})
        answers = for_group(two_kinds(slices, gb), whole, second)

        found = [one for one in answers if isinstance(one, Preemption)]
        assert {pod.name for one in found for pod in one.victims} == victims


def test_a_nominated_pod_counts_with_the_device_it_is_to_get() -> None:
    state = two_kinds(7, 80)
    state.nominate(asks(1, "a", **WHOLE), "n1", Devices())

    assert ending(state, pod("q", namespace="a", gpus=1)) == set()


# --- no loop --------------------------------------------------------------------------------


def test_what_was_taken_back_is_not_taken_back_again() -> None:
    """KUE#14543: the team that lost its work was below its share then, and evicted in turn."""
    state = full(running("o", "other"))
    found = decided(state, asks(1))
    assert isinstance(found, Preemption)
    [victim] = found.victims
    state.delete_pod(victim.uid)
    state.upsert_pod(running("a-0", "a"))

    assert ending(state, asks(1, victim.namespace)) == set()


@pytest.mark.parametrize(("asking", "other"), [("b", "c"), ("c", "b")])
def test_teams_that_both_borrow_take_nothing_from_each_other(asking: str, other: str) -> None:
    """VOL#3869: two jobs with pods that waited reclaimed each other's room for ever."""
    teams = table(team("a", 4), team("b"), team("c"))
    state = world(teams, node("n1", gpus=4, labels=A100))
    for name in (asking, other):
        for at in range(2):
            state.upsert_pod(running(f"{name}-{at}", name))

    assert ending(state, asks(1, asking)) == set()
    assert ending(state, asks(1)) in ({"b-0"}, {"b-1"}, {"c-0"}, {"c-1"})
