"""From a pod that vanished to a node that rests, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from scheduler.framework.decision import Placement
from scheduler.model.pods.pod import Condition, Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.breakers.circuit import Timings
from tests.builders import as_bound, node, pod
from tests.unit.loop.loop_world import Stage, playing

PAUSE_FIRST_S = Timings().pause_first_s
TWO = (
    node("n1", gpus=4, with_gpu_indexes=True),
    node("n2", gpus=4, with_gpu_indexes=True, cpu="8"),
)
WORDS = "node(s) were avoided after they rejected pods like this one"


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with playing(Stage()) as playing_stage:
        playing_stage.sync()
        yield playing_stage


async def bound(stage: Stage, name: str, gpus: int = 1) -> Placement:
    """A pod wants GPUs and is bound."""
    stage.see(ev.PodUpdated(pod(name, gpus=gpus)))
    placement = await stage.binder.next()
    stage.confirm(placement)
    await stage.quiet()
    return placement


async def rejected(stage: Stage, placement: Placement) -> None:
    """Its kubelet rejects it: the watch shows it deleted, and the look-up has the reason."""
    uid = placement.pod.uid
    stage.see(ev.PodDeleted(uid))
    await stage.quiet()
    assert stage.looked_up[-1].uid == uid
    stage.see(ev.PodRejected(uid, "OutOfnvidia.com/gpu", "no device"))
    await stage.quiet()


async def test_node_rejecting_three_pods_is_avoided_and_retried(stage: Stage) -> None:
    stage.see(*(ev.NodeUpdated(one) for one in TWO))
    for number in range(3):
        placement = await bound(stage, f"p{number}")
        assert placement.node_name == "n2", "the node with less cpu left fits best"
        await rejected(stage, placement)

    assert (await bound(stage, "elsewhere")).node_name == "n1"
    assert stage.sample("gpu_scheduler_avoided_nodes") == 1
    rejections = stage.sample("gpu_scheduler_pods_rejected_by_nodes_total", reason="OutOf")
    assert rejections == 3
    told = [text for _, what, text in stage.recorder.said if what == "NodeAvoided"]
    assert told == [
        "node n2 rejected several pods, the last one with OutOfnvidia.com/gpu:"
        " pods with nvidia.com/gpu avoid it for 30 s"
    ]

    stage.pass_time(PAUSE_FIRST_S)
    await stage.quiet()
    assert (await bound(stage, "back", gpus=4)).node_name == "n2"
    assert stage.sample("gpu_scheduler_avoided_nodes") == 0


async def test_pod_with_only_avoided_nodes_gets_a_reason_and_is_requeued(
    stage: Stage,
) -> None:
    stage.see(ev.NodeUpdated(TWO[0]))
    for number in range(3):
        await rejected(stage, await bound(stage, f"p{number}"))
    stage.see(ev.PodUpdated(pod("waits", gpus=1)))
    await stage.quiet()

    assert ("waits", "Unschedulable", f"0/1 nodes are available: 1 {WORDS}.") in stage.recorder.said
    stage.pass_time(PAUSE_FIRST_S)
    assert (await stage.binder.next()).pod.name == "waits"


async def test_pods_with_other_requests_still_use_the_node(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(TWO[0]))
    for number in range(3):
        await rejected(stage, await bound(stage, f"p{number}"))
    stage.see(ev.PodUpdated(pod("cpu", requests={"cpu": "1"})))

    assert (await stage.binder.next()).pod.name == "cpu"


async def test_a_pod_that_ran_or_was_deleted_is_not_looked_up(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(TWO[0]))
    ran, deleted = await bound(stage, "ran"), await bound(stage, "deleted")
    stage.see(
        ev.PodUpdated(msgspec.structs.replace(as_bound(ran), phase="Running")),
        ev.PodDeleted(ran.pod.uid),
        ev.PodUpdated(msgspec.structs.replace(as_bound(deleted), is_deleting=True)),
        ev.PodDeleted(deleted.pod.uid),
    )
    await stage.quiet()

    assert stage.looked_up == []


async def test_replaced_node_starts_with_a_closed_circuit(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(TWO[0]))
    for number in range(3):
        await rejected(stage, await bound(stage, f"p{number}"))
    stage.see(ev.NodeDeleted("n1"), ev.NodeUpdated(TWO[0]))

    assert (await bound(stage, "fresh")).node_name == "n1"


async def test_held_node_stays_closed_beyond_breaker_pauses(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(TWO[0]))
    for number in range(3):
        await rejected(stage, await bound(stage, f"p{number}"))
    doors = stage.controllers.avoidance
    doors.close("n1")
    stage.pass_time(PAUSE_FIRST_S)
    await stage.quiet()
    stage.see(ev.PodUpdated(pod("waits", gpus=1)), ev.PodUpdated(pod("cpu", requests={"cpu": "1"})))
    await stage.quiet()
    assert {name for name, _, text in stage.recorder.said if WORDS in text} == {"waits", "cpu"}

    assert doors.reopen("n1") == [ev.ClusterEvent(RequeueCause.AVOIDED, node_name="n1")]

    stage.see(ev.PodUpdated(pod("later", requests={"cpu": "1"})))
    assert (await stage.binder.next()).pod.name == "later"


async def test_releasing_a_hold_keeps_the_breaker_state(stage: Stage) -> None:
    stage.see(ev.NodeUpdated(TWO[0]))
    for number in range(3):
        await rejected(stage, await bound(stage, f"p{number}"))
    doors = stage.controllers.avoidance
    before = stage.loop.cluster.nodes.node_info["n1"].avoided
    assert before

    doors.close("n1")
    doors.reopen("n1")

    assert stage.loop.cluster.nodes.node_info["n1"].avoided == before


def named_by_its_author(name: str) -> Pod:
    """A pod created with a node name: no Binding, so no condition."""
    return pod(name, gpus=1, node="n1")


async def test_pod_with_node_name_set_by_its_author_is_not_looked_up(stage: Stage) -> None:
    """Its failure does not count: otherwise any user could close nodes for others."""
    stage.see(ev.NodeUpdated(TWO[0]))
    for number in range(4):
        own = named_by_its_author(f"p{number}")
        stage.see(ev.PodUpdated(own), ev.PodDeleted(own.uid))
        stage.see(ev.PodRejected(own.uid, "OutOfnvidia.com/gpu", "no device"))
    await stage.quiet()

    assert stage.looked_up == []
    assert (await bound(stage, "p9")).node_name == "n1"


async def test_a_pod_that_is_missing_from_a_list_is_looked_up(stage: Stage) -> None:
    """It vanished while the watch was broken."""
    stage.see(ev.NodeUpdated(TWO[0]))
    placement = await bound(stage, "missed")
    stage.see(ev.PodsReplaced(()))
    await stage.quiet()

    assert [one.uid for one in stage.looked_up] == [placement.pod.uid]


async def test_standby_consumes_events_and_writes_nothing(stage: Stage) -> None:
    stage.leader.is_leading = False
    stage.see(ev.NodeUpdated(TWO[0]))
    for number in range(3):
        seen = pod(f"p{number}", gpus=1, node="n1", devices="gpu:0")
        condition = Condition("True")
        stage.see(ev.PodUpdated(msgspec.structs.replace(seen, condition=condition)))
        stage.see(ev.PodDeleted(seen.uid))
        await stage.quiet()
        stage.see(ev.PodRejected(seen.uid, "OutOfnvidia.com/gpu", "no device"))
    await stage.quiet()

    assert len(stage.looked_up) == 3
    assert stage.sample("gpu_scheduler_avoided_nodes") == 1
    assert stage.sample("gpu_scheduler_pods_rejected_by_nodes_total", reason="OutOf") == 0
    assert [what for _, what, _ in stage.recorder.said if what == "NodeAvoided"] == []


def heard(name: str, namespace: str = "team", age_s: float = 10.0) -> ev.DeletedPodEvent:
    """A kubelet's event about a pod that is gone."""
    reason = "OutOfnvidia.com/gpu"
    return ev.DeletedPodEvent(f"gone-{name}", namespace, name, "n1", reason, "no device", age_s)


RUMOURS = [
    pytest.param([heard(f"train-{n}") for n in range(3)], True, id="of-its-workload"),
    pytest.param([heard(f"other-{n}") for n in range(3)], False, id="of-another-one"),
    pytest.param([heard(f"train-{n}", "mallory") for n in range(3)], False, id="elsewhere"),
    pytest.param([heard("train-1")] * 2, False, id="too-few"),
    pytest.param([heard(f"train-{n}", age_s=3000) for n in range(3)], False, id="long-ago"),
]


@pytest.mark.parametrize("is_there", [True, False], ids=["waits-already", "comes-later"])
@pytest.mark.parametrize(("told", "is_avoided"), RUMOURS)
async def test_events_count_for_recreated_nodes(
    stage: Stage, told: list[ev.DeletedPodEvent], is_avoided: bool, is_there: bool
) -> None:
    stage.leader.is_leading = False
    successor = ev.PodUpdated(pod("train-x7k2p", gpus=1))
    news = [successor, ev.PastRejectionsRead((), tuple(told))]
    stage.see(ev.NodeUpdated(TWO[0]), *(news if is_there else reversed(news)))
    await stage.quiet()
    stage.leader.is_leading = True
    stage.see(ev.PodUpdated(pod("else", gpus=1, requests={"cpu": "1"})))
    await stage.quiet()

    names = {placement.pod.name for placement in stage.binder.sent}
    assert names == ({"else"} if is_avoided else {"else", "train-x7k2p"})
