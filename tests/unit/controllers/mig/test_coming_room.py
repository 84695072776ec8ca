"""Pods wait for a node that mig-manager lays out, and request no other one meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from scheduler.controllers.mig import coming_room
from scheduler.controllers.mig.coming_room import ComingRoom
from scheduler.controllers.table import ControllerSettings
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from scheduler.state.mig.layout_wait import SETTLED_AFTER_S
from tests.builders import ALLOW_ALL_MAPS, node, pod, pod_json
from tests.fake_autoscalers import wants_a_node
from tests.gangs import members
from tests.unit.loop.loop_world import Stage, playing

LABELS = {
    well_known.GPU_PRODUCT: "NVIDIA-A100-SXM4-80GB",
    well_known.GPU_COUNT: "1",
    well_known.MIG_MANAGER: "true",
}
ONE = {"1g.10gb": 1}


def layout(state: str, config: str = "all-1g.10gb", name: str = "n1", **more: Any) -> Node:
    labels = {**LABELS, well_known.MIG_WANTED: config, well_known.MIG_STATE: state}
    return node(name, labels=labels, **({"gpus": 1} | more))


def wanting(count: int, **fields: Any) -> list[Pod]:
    return [pod(f"a{number}", **({"mig": ONE} | fields)) for number in range(count)]


def stage_of(**more: Any) -> Stage:
    return Stage(settings=ControllerSettings(pipeline=ALLOW_ALL_MAPS), **more)


async def later(stage: Stage, seconds: float = 1.1) -> None:
    """The tick after some seconds, and everything that follows from it."""
    for wait_s in (seconds, 1.1):
        await stage.quiet()
        stage.pass_time(wait_s)
    await stage.quiet()


def shown(stage: Stage) -> dict[str, tuple[str, str]]:
    """By pod the newest reason and the nominated node."""
    reasons = {name: reason for name, reason, _ in stage.recorder.said}
    return {name: (reason, stage.recorder.nominated[name]) for name, reason in reasons.items()}


async def see(stage: Stage, *objects: Node | Pod) -> None:
    for one in objects:
        stage.see(ev.NodeUpdated(one) if isinstance(one, Node) else ev.PodUpdated(one))
    if not stage.gate.is_synced:
        stage.sync()
    await later(stage)


WAITS, NEEDS = ("WaitingForCapacity", "n1"), ("Unschedulable", "")


@pytest.mark.parametrize(
    ("state", "fields", "expected"),
    [
        pytest.param("pending", {"mig": ONE}, WAITS, id="pending"),
        pytest.param("rebooting", {"mig": ONE}, WAITS, id="rebooting"),
        pytest.param("success", {"mig": ONE}, WAITS, id="no-instance-is-advertised-yet"),
        pytest.param("failed", {"mig": ONE}, NEEDS, id="failed"),
        pytest.param("pending", {"mig": {"2g.20gb": 1}}, NEEDS, id="another-profile"),
        pytest.param("pending", {"gpus": 1}, NEEDS, id="whole-gpu"),
        pytest.param("pending", {"mig": ONE, "selector": {"a": "b"}}, NEEDS, id="another-node"),
    ],
)
async def test_pod_waits_for_a_node_that_will_have_room(
    state: str, fields: Any, expected: tuple[str, str]
) -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout(state))
        await see(stage, pod("a", **fields))

        reason, node_name = shown(stage)["a"]
        assert (reason, node_name) == expected
        condition = {"type": "PodScheduled", "status": "False", "reason": reason}
        status = {"conditions": [condition], "nominatedNodeName": node_name}
        assert wants_a_node(pod_json("a", status=status)) is (expected is NEEDS)


async def test_as_many_pods_wait_as_will_have_room() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *wanting(9))

        assert Counter(shown(stage).values()) == {WAITS: 7, NEEDS: 2}


async def test_pods_that_wait_already_are_woken_for_a_new_node() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, node("full", mig={"1g.10gb": 0}), *wanting(9))
        assert Counter(shown(stage).values()) == {NEEDS: 9}

        await see(stage, layout("pending"))

        assert Counter(shown(stage).values()) == {WAITS: 7, NEEDS: 2}


async def test_second_new_node_takes_the_pods_that_are_left() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *wanting(9))
        said = len(stage.recorder.said)
        await see(stage, layout("pending", name="n2"))

        assert Counter(shown(stage).values()) == {WAITS: 7, ("WaitingForCapacity", "n2"): 2}
        assert len(stage.recorder.said) == said + 2, "the others wait on"


async def test_deleted_pod_leaves_its_room_to_another() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *wanting(7))
        stage.see(ev.PodDeleted(wanting(7)[3].uid))
        await see(stage, pod("late", mig=ONE))

        assert shown(stage)["late"] == WAITS


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(layout("failed"), NEEDS, id="failed"),
        pytest.param(layout("pending", "all-7g.80gb"), NEEDS, id="another-configuration"),
        pytest.param(layout("success", mig={"2g.20gb": 3, "1g.10gb": 0}), WAITS, id="no-instance"),
    ],
)
async def test_wait_ends_with_what_it_is_for(after: Node, expected: tuple[str, str]) -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), pod("a", mig=ONE))
        assert shown(stage)["a"] == WAITS

        await see(stage, after)

        assert shown(stage)["a"] == expected


async def test_pods_are_placed_when_the_instances_are_advertised() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *wanting(7))
        await see(stage, layout("success", gpus=0, mig={"1g.10gb": 7}))

        assert {one.node_name for one in stage.binder.sent} == {"n1"}
        assert len(stage.binder.sent) == 7


async def test_wait_for_a_stuck_mig_manager_ends() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), pod("a", mig=ONE))
        await later(stage, SETTLED_AFTER_S - 10)
        assert shown(stage)["a"] == WAITS

        await later(stage, 10)

        assert shown(stage)["a"] == NEEDS


@pytest.mark.parametrize(
    ("count", "expected"),
    [pytest.param(7, WAITS, id="all-fit"), pytest.param(8, NEEDS, id="one-too-many")],
)
async def test_gang_waits_as_a_whole_or_not_at_all(count: int, expected: tuple[str, str]) -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *members(count, count, mig=ONE))

        assert Counter(shown(stage).values()) == {expected: count}


async def test_gang_that_does_not_fit_holds_no_room() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *members(8, 8, mig=ONE), *wanting(7))

        alone = [state for name, state in shown(stage).items() if name.startswith("a")]
        assert alone == [WAITS] * 7


async def test_gang_that_waits_keeps_its_room_as_it_grows() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *members(4, 4, mig=ONE))
        await see(stage, *members(9, 4, mig=ONE)[4:])
        assert [shown(stage)[f"train-{number}"] for number in range(4)] == [WAITS] * 4

        await see(stage, *wanting(4))

        states = shown(stage)
        assert Counter(state for name, state in states.items() if name[0] == "a") == {
            WAITS: 3,
            NEEDS: 1,
        }


async def test_only_pods_that_wait_for_no_node_are_counted(monkeypatch: Any) -> None:
    monkeypatch.setattr(coming_room, "PODS_MAX", 7)
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *wanting(21))
        await see(stage, layout("pending", name="n2"), layout("pending", name="n3"))

        assert Counter(where for _, where in shown(stage).values()) == {"n1": 7, "n2": 7, "n3": 7}


async def test_pod_is_looked_up_by_its_uid(monkeypatch: Any) -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *wanting(7))
        monkeypatch.setattr(ComingRoom, "_together", lambda *_: pytest.fail("searched"))
        monkeypatch.setattr(ComingRoom, "_forget_ended", lambda *_: pytest.fail("searched"))

        named = [stage.controllers.coming.awaited(one) for one in wanting(7)]

        assert named == ["n1"] * 7


async def test_pod_that_no_layout_is_for_is_not_filtered(monkeypatch: Any) -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"))
        monkeypatch.setattr(coming_room, "first_rejection", lambda *_: pytest.fail("filtered"))

        assert stage.controllers.coming.awaited(pod("a", gpus=1)) == ""


async def test_other_amounts_of_a_node_prolong_no_wait() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending", cpu="8"), pod("a", mig=ONE))
        await later(stage, SETTLED_AFTER_S - 10)
        await see(stage, layout("pending", cpu="9"))
        await later(stage, 10)

        assert shown(stage)["a"] == NEEDS


async def test_taint_ends_the_wait_until_it_is_removed() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), pod("a", mig=ONE))
        await see(stage, layout("pending", taints=["a=b:NoSchedule"]))
        assert shown(stage)["a"] == NEEDS

        await see(stage, layout("pending"))
        assert shown(stage)["a"] == WAITS

        await later(stage, SETTLED_AFTER_S)
        assert shown(stage)["a"] == NEEDS, "the wait began with the layout"


async def test_pods_that_wait_on_are_not_decided_again() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *wanting(7))
        said = len(stage.recorder.said)
        await see(stage, layout("pending", taints=["a=b:PreferNoSchedule"]))

        assert len(stage.recorder.said) == said


async def test_pod_placed_elsewhere_takes_no_coming_room() -> None:
    placed = pod("elsewhere", mig=ONE, node="n0")
    async with playing(stage_of()) as stage:
        stage.controllers.coming._taken = lambda _: [placed.uid]
        await see(stage, placed, layout("pending"), *wanting(7))

        assert Counter(shown(stage).values()) == {WAITS: 7}


@pytest.mark.parametrize(
    "strong",
    [
        pytest.param([pod("high", mig=ONE, priority=9)], id="pod"),
        pytest.param(members(2, 2, mig=ONE, priority=9), id="gang"),
    ],
)
async def test_preemptor_takes_no_coming_room(strong: list[Pod]) -> None:
    own = default_pipeline(Settings(maps_allow="all", preemption="own"))
    weak = [pod(f"low{number}", mig=ONE, node="n2", phase="Running") for number in range(2)]
    async with playing(Stage(own, settings=ControllerSettings(pipeline=own))) as stage:
        await see(stage, node("n2", mig={"1g.10gb": 2}), *weak, layout("pending"), *strong)
        await see(stage, *wanting(7))

        expected = {WAITS: 7, ("WaitingForCapacity", "n2"): len(strong)}
        assert Counter(shown(stage).values()) == expected


async def test_pod_that_becomes_a_preemptor_leaves_its_room() -> None:
    async with playing(stage_of()) as stage:
        await see(stage, layout("pending"), *wanting(7))
        coming = stage.controllers.coming

        assert coming.awaited(wanting(1)[0], "n2") == ""
        assert coming.awaited(pod("late", mig=ONE)) == "n1"
