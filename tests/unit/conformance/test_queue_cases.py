"""Which pods are decided, when, and what a new process knows of them."""

from __future__ import annotations

from typing import Any

from scheduler.state import event as ev
from tests.builders import node, pod
from tests.scheduler_world import SchedulerWorld
from tests.unit.loop.loop_world import Stage, playing

ONE_GPU = ev.NodeUpdated(node("n1", gpus=1))
AWAY_FROM_WEB: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
}


async def test_case_01_pod_of_another_scheduler_is_not_bound_or_reported() -> None:
    async with playing(Stage()) as stage:
        foreign = ev.PodUpdated(pod("foreign", gpus=1, scheduler="other", created=0))
        stage.see(ONE_GPU, foreign, ev.PodUpdated(pod("ours", gpus=1, created=1)))
        stage.sync()

        assert (await stage.binder.next()).pod.name == "ours"
        await stage.quiet()
        assert [one.pod.name for one in stage.binder.sent] == ["ours"]
        assert stage.recorder.said == []


async def test_case_02_a_pod_is_silent_until_its_last_gate_is_removed() -> None:
    async with playing(Stage()) as stage:
        gates = ["a.example/x", "b.example/x"]
        stage.see(ONE_GPU, ev.PodUpdated(pod("p", gpus=1, gates=gates)))
        stage.sync()
        stage.see(ev.PodUpdated(pod("p", gpus=1, gates=gates[:1])))
        await stage.quiet()
        assert (stage.binder.sent, stage.recorder.said) == ([], [])

        stage.see(ev.PodUpdated(pod("p", gpus=1)))

        assert (await stage.binder.next()).pod.name == "p", "the clock stood still: no backoff"


def test_case_10_a_changed_label_of_the_pod_requeues_it() -> None:
    labels = {"zone": "a"}
    guard = pod("guard", node="n1", spec=AWAY_FROM_WEB)
    world = SchedulerWorld(node("n1", labels=labels), guard)
    world.deliver(ev.PodUpdated(pod("p", labels={"app": "web"})))
    world.decide_due()
    assert world.cluster.pods["team-p"].node_name == ""

    world.deliver(ev.PodUpdated(pod("p")))
    world.decide_due()

    assert world.cluster.pods["team-p"].node_name == "n1"


async def test_case_17_a_restart_tries_the_nominated_node_first() -> None:
    async with playing(Stage()) as stage:
        bound = pod("bound", gpus=1, node="tight")
        waiting = pod("waiting", gpus=1, nominated="wide", priority=5)
        stage.see(
            ev.NodesReplaced((node("tight", gpus=2), node("wide", gpus=8), node("full", gpus=0))),
            ev.PodsReplaced((bound, waiting)),
        )
        stage.sync()

        assert (await stage.binder.next()).node_name == "wide", "best fit would take tight"
        assert stage.loop.cluster.nodes.node_info["tight"].free("nvidia.com/gpu") == 1
