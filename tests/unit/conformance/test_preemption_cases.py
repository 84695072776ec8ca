"""Which pods go for a stronger one, on which node, and how long its node is kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Preemption
from scheduler.model.actions import PreemptPods
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from tests.builders import cluster, node, pod
from tests.storage import claim, uses, volume
from tests.unit.loop.loop_world import Stage, playing
from tests.unit.plugins.preemption.scene import OWN, budget, preemption, rejection, running, victims

WEB = {"app": "web"}
BOSS = pod("boss", gpus=1, priority=9)


def sent(stage: Stage) -> list[PreemptPods]:
    """The deletions that were asked for."""
    return [one for one in stage.sent.actions if isinstance(one, PreemptPods)]


async def preempted(stage: Stage, *pods: Pod, gpus: int = 1) -> PreemptPods:
    """The first deletion on a stage with one node and these pods."""
    stage.see(ev.NodeUpdated(node("n1", gpus=gpus)), *map(ev.PodUpdated, pods))
    stage.sync()
    while not sent(stage):
        await stage.recorder.next()
        await stage.quiet()
    return sent(stage)[0]


def test_case_42_a_claim_for_one_pod_is_freed_by_preemption() -> None:
    one_pod = claim(volume="pv", modes=["ReadWriteOncePod"])
    user = pod("user", node="n1", spec=uses("data"))
    state = cluster(node("n1"), node("n2"), one_pod, volume(), user)

    rejection(state, pod("equal", spec=uses("data")))
    found = preemption(state, pod("boss", priority=9, spec=uses("data")))

    assert (found.nominated_node, [one.name for one in found.victims]) == ("n1", ["user"])


async def test_case_43_only_the_least_important_pod_is_deleted() -> None:
    async with playing(Stage(OWN)) as stage:
        early, late = running("early", 1, gpus=1), running("late", 2, gpus=1)

        action = await preempted(stage, early, late, BOSS, gpus=2)

        assert action == PreemptPods(BOSS, "n1", (late,))


async def test_case_44_a_pod_that_never_preempts_still_goes_first() -> None:
    async with playing(Stage(OWN)) as stage:
        mild = pod("mild", gpus=1, priority=9, created=5, spec={"preemptionPolicy": "Never"})
        stage.see(ev.NodeUpdated(node("n1", gpus=1)), ev.PodUpdated(running("low", gpus=1)))
        stage.see(ev.PodUpdated(pod("older", gpus=1, priority=0)), ev.PodUpdated(mild))
        stage.sync()
        said = {(await stage.recorder.next())[0] for _ in range(2)}
        assert (said, sent(stage)) == ({"older", "mild"}, [])

        stage.see(ev.PodDeleted("team-low"))
        await stage.quiet()
        stage.pass_time(1.1)

        assert (await stage.binder.next()).pod.name == "mild"


@pytest.mark.parametrize(
    ("guarded", "chosen", "violations"),
    [
        pytest.param({"n1": 2, "n2": 0}, "n2", 0, id="one-node-without-violations"),
        pytest.param({"n1": 2, "n2": 1}, "n2", 1, id="fewest-violations"),
        pytest.param({"n1": 1, "n2": 2}, "n1", 1, id="fewest-violations-the-other-way"),
    ],
)
def test_case_45_the_node_with_the_fewest_budget_violations_is_taken(
    guarded: dict[str, int], chosen: str, violations: int
) -> None:
    pods = [
        running(f"{name}-{number}", 1, on=name, gpus=1, labels=WEB if number < count else {})
        for name, count in guarded.items()
        for number in range(2)
    ]
    state = cluster(*(node(name, gpus=2) for name in guarded), *pods)
    state.preemptions.upsert_budget(budget("web", WEB, 0))

    found = preemption(state, pod("boss", gpus=2, priority=9))

    assert (found.nominated_node, found.violations) == (chosen, violations)


def test_case_46_terminating_victim_on_the_nominated_node_is_awaited() -> None:
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    going = pod("going", node="n1", gpus=1, deleting=True, status={"conditions": [mark]})
    state = cluster(node("n1", gpus=1), node("n2", gpus=1), going, running("low", on="n2", gpus=1))
    waiting = msgspec.structs.replace(BOSS, nominated_node="n1")
    state.upsert_pod(waiting)

    assert rejection(state, waiting).nominated_node == "n1"


def test_case_47_pods_of_equal_priority_stay() -> None:
    state = cluster(
        node("n1", gpus=2), running("low", gpus=1, priority=8), running("equal", gpus=1, priority=9)
    )

    assert victims(state, BOSS) == ["low"]
    rejection(state, pod("boss", gpus=2, priority=9))


def test_case_47_a_node_that_no_victim_can_open_is_not_examined() -> None:
    wrong: dict[str, Any] = {"gpus": 1, "taints": ["a=b:NoSchedule"]}
    nodes = [node("n1", **wrong), node("n2", gpus=1)]
    state = cluster(*nodes, *(running(f"low-{n}", on=n, gpus=1) for n in ("n1", "n2")))

    assert preemption(state, BOSS).nominated_node == "n2"
    state.delete_node("n2")
    assert rejection(state, BOSS).unhelpful == {}


async def test_case_48_a_weaker_pod_does_not_take_the_room_of_a_preemptor() -> None:
    async with playing(Stage(OWN)) as stage:
        low = running("low", gpus=1)
        await preempted(stage, low, BOSS)
        assert stage.recorder.nominated == {"boss": "n1"}
        stage.see(ev.PreemptionEnded(BOSS, "n1", (ev.VictimResult(low, ev.VictimOutcome.DELETED),)))

        stage.see(ev.PodUpdated(pod("thief", gpus=1, priority=5)), ev.PodDeleted(low.uid))
        await stage.quiet()
        stage.pass_time(1.1)

        assert (await stage.binder.next()).pod.name == "boss"
        await stage.quiet()
        assert [one.pod.name for one in stage.binder.sent] == ["boss"]


async def test_case_49_a_preemptor_leaves_a_nominated_node_that_is_deleted() -> None:
    async with playing(Stage(OWN)) as stage:
        await preempted(stage, running("low", gpus=1), BOSS)
        shown = msgspec.structs.replace(BOSS, nominated_node="n1")
        stage.see(ev.PodUpdated(shown), ev.NodeDeleted("n1"), ev.PodDeleted("team-low"))
        stage.see(ev.NodeUpdated(node("n2", gpus=1)))
        await stage.quiet()
        stage.pass_time(1.1)

        assert (await stage.binder.next()).node_name == "n2"
        assert stage.loop.cluster.nominated == {}


def test_case_49_the_nomination_for_a_deleted_node_is_not_kept() -> None:
    state = cluster(node("n2", gpus=1, taints=["a=b:NoSchedule"]))
    waiting = msgspec.structs.replace(BOSS, nominated_node="n1")
    state.upsert_pod(waiting)

    decision = schedule_one(state, waiting, OWN)

    assert not isinstance(decision, Placement | Preemption)
    assert decision.nominated_node == ""
