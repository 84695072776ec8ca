"""What users of other schedulers report of gangs, as this scheduler answers it.

The names of the issues are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from scheduler.controllers.gangs.reservation import RESERVE_S
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.gangs import member, members
from tests.unit.controllers.gangs.test_reservation import wait
from tests.unit.controllers.gangs.test_scheduling import seen, sent
from tests.unit.loop.loop_world import Stage, playing


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with playing(Stage()) as playing_stage:
        playing_stage.sync()
        yield playing_stage


def groups(stage: Stage) -> set[str]:
    """The groups of which a Binding was sent."""
    return {one.pod.group for one in stage.binder.sent}


async def end(stage: Stage, group: str) -> None:
    """Every pod of a group was bound, ran and ended."""
    mine = [one for one in stage.binder.sent if one.pod.group == group]
    for one in mine:
        stage.confirm(one)
    await stage.quiet()
    stage.see(*(ev.PodDeleted(one.pod.uid) for one in mine))
    await wait(stage, 12)


async def test_two_large_gangs_start_one_after_the_other(stage: Stage) -> None:
    """VOL#3373: each held a part of the room of the other one, and neither ended."""
    stage.see(*(ev.NodeUpdated(node(f"n{number}", gpus=10)) for number in range(15)))
    mixed = zip(members(100, 100, "a", gpus=1), members(100, 100, "b", gpus=1), strict=True)
    seen(stage, *(one for pair in mixed for one in pair))
    await stage.quiet()

    [first] = groups(stage)
    assert len(sent(stage)) == 100
    await end(stage, first)

    assert groups(stage) == {"a", "b"}
    assert len(sent(stage)) == 200


async def test_groups_that_need_the_same_nodes_do_not_wait_for_each_other(stage: Stage) -> None:
    """KOO#872: A had the one node and B the other one."""
    stage.see(*(ev.NodeUpdated(node(name, gpus=1, labels={"at": name})) for name in ("x", "y")))
    seen(
        stage,
        pod("before", gpus=1, node="x", phase="Running"),
        member("a-0", 2, "a", gpus=1, selector={"at": "x"}),
        member("b-0", 2, "b", gpus=1, selector={"at": "y"}),
        member("a-1", 2, "a", gpus=1, selector={"at": "y"}),
        member("b-1", 2, "b", gpus=1, selector={"at": "x"}),
    )
    await stage.quiet()
    assert sent(stage) == [], "no group takes the one node that is free"

    stage.see(ev.PodDeleted("team-before"))
    await wait(stage, 12)
    [first] = groups(stage)
    await end(stage, first)

    assert sent(stage) == ["a-0", "a-1", "b-0", "b-1"]


async def test_pods_that_need_other_room_do_not_wait_for_a_gang(stage: Stage) -> None:
    """SPL#713: members that waited for the rest kept others from starting."""
    stage.see(ev.NodeUpdated(node("n1", gpus=2)), ev.NodeUpdated(node("n2", gpus=4)))
    seen(stage, pod("runs", gpus=2, node="n2", phase="Running"))
    seen(stage, *members(2, 2, gpus=2), pod("cpu", created=5), pod("gpu", gpus=4, created=6))
    incomplete = members(2, 3, "late", gpus=1, created=7)
    seen(stage, *incomplete, pod("small", requests={"cpu": "1"}, created=9))
    await wait(stage, 3)

    assert {"cpu", "small"} <= set(sent(stage))


async def test_members_that_wait_for_the_rest_hold_no_room(stage: Stage) -> None:
    """SPL#713: there is room for both of them, and the third one does not exist."""
    stage.see(ev.NodeUpdated(node(gpus=2)))
    seen(stage, *members(2, 3, gpus=1))
    await wait(stage, 3)
    seen(stage, pod("single", gpus=2, created=9))
    await stage.quiet()

    assert sent(stage) == ["single"]


async def test_a_recreated_member_starts_beside_those_that_run(stage: Stage) -> None:
    """SPL#358: fewer members than the minimum were pending, so it never started."""
    stage.see(ev.NodeUpdated(node(gpus=3)))
    seen(stage, *(member(f"run-{at}", 3, "run", gpus=1, node="n1") for at in range(2)))
    seen(stage, member("run-9", 3, "run", gpus=1, created=9))
    await wait(stage, 3)

    assert sent(stage) == ["run-9"]


async def test_a_gang_is_completed_before_new_gangs_start(stage: Stage) -> None:
    """VOL#5805: after the repair of a node the gang stayed behind new jobs."""
    stage.see(ev.NodeUpdated(node("n1", gpus=2)))
    seen(stage, *(member(f"old-{at}", 3, "old", gpus=1, node="n1") for at in range(2)))
    seen(stage, *members(2, 2, "new", gpus=1), member("old-2", 3, "old", gpus=1, created=30))
    await wait(stage, 12)
    assert sent(stage) == []

    stage.see(ev.NodeUpdated(node("repaired", gpus=2)))
    await wait(stage, 12)

    assert sent(stage) == ["old-2"]


@pytest.mark.parametrize("outcome", [ev.BindOutcome.REFUSED, ev.BindOutcome.UNREACHABLE])
async def test_a_failed_binding_is_repeated_within_seconds(
    stage: Stage, outcome: ev.BindOutcome
) -> None:
    """K8S#140263, K8S#140478: its member was never tried again. Its place is left to it."""
    stage.see(ev.NodeUpdated(node(gpus=3)))
    seen(stage, *members(3, 3, gpus=1))
    await stage.quiet()
    failed, *others = stage.binder.sent
    stage.binder.end(failed, outcome, "no")
    for one in others:
        stage.confirm(one)
    seen(stage, pod("single", gpus=1, created=9))
    await wait(stage, 6)

    assert stage.binder.sent[3].pod.uid == failed.pod.uid
    assert stage.binder.sent[3].node_name == failed.node_name


async def test_the_room_of_followers_is_not_taken_meanwhile(stage: Stage) -> None:
    """JS#341: another group took the domain that was chosen for the followers."""
    stage.see(*(ev.NodeUpdated(node(name, gpus=2, labels={"rack": "r"})) for name in ("a", "b")))
    seen(stage, pod("before", gpus=1, node="a", phase="Running"))
    seen(stage, *members(4, 4, "first", gpus=1, selector={"rack": "r"}))
    seen(stage, *members(3, 3, "other", gpus=1, selector={"rack": "r"}, created=20))
    await wait(stage, int(RESERVE_S) - 6)
    assert sent(stage) == []

    stage.see(ev.PodDeleted("team-before"))
    await wait(stage, 12)

    assert groups(stage) == {"first"}


async def test_the_plan_of_a_gang_sees_the_one_before_it(stage: Stage) -> None:
    """KUE#14570: two heads got the same node in one cycle."""
    stage.see(*(ev.NodeUpdated(node(name, gpus=2)) for name in ("n1", "n2")))
    seen(stage, *(one for name in "abc" for one in members(2, 2, name, gpus=1)))
    await stage.quiet()

    assert sorted(one.node_name for one in stage.binder.sent) == ["n1", "n1", "n2", "n2"]
    assert len(groups(stage)) == 2
