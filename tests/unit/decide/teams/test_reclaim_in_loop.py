"""From the decision to take back what another team borrows until the entitled pod has its node."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.framework.settings import Settings
from scheduler.model.actions import PreemptPods
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import rfc3339
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from tests.builders import cluster, node, pod
from tests.gangs import members
from tests.teams import A100, table, team
from tests.unit.loop.loop_world import WALL, Stage, playing

OWN = default_pipeline(Settings(maps_allow="all", preemption="own"))
TEAMS = table(team("a", 2), team("b"))
TICK_S = 1.1


def borrowed(name: str, at: str = "n1", for_s: float = 3600) -> Pod:
    status = {"startTime": rfc3339(WALL - for_s)}
    return pod(
        name, namespace="b", gpus=1, node=at, phase="Running", owner="ReplicaSet/web", status=status
    )


def sent(stage: Stage) -> list[PreemptPods]:
    return [one for one in stage.sent.actions if isinstance(one, PreemptPods)]


def setting(stage: Stage, *pods: Pod, **fields: Any) -> None:
    """A node with as many GPUs as these pods have, and the time that is known."""
    teams = msgspec.structs.replace(TEAMS, **fields)
    stage.see(ev.TeamsRead(teams), ev.NodeUpdated(node("n1", gpus=len(pods), labels=A100)))
    stage.see(*map(ev.PodUpdated, pods))
    stage.sync()


async def ticked(stage: Stage, seconds: float = TICK_S) -> None:
    stage.pass_time(seconds)
    await stage.quiet()


async def heard(stage: Stage, name: str) -> tuple[str, str]:
    """What is said next about a pod."""
    while True:
        about, reason, text = await stage.recorder.next()
        if about == name:
            return reason, text


def taken(stage: Stage, action: PreemptPods) -> None:
    """The API server takes the deletions."""
    results = tuple(ev.VictimResult(one, ev.VictimOutcome.DELETED, "") for one in action.victims)
    stage.see(ev.PreemptionEnded(action.preemptor, action.node_name, results))
    for one in action.victims:
        going = msgspec.structs.replace(one, is_deleting=True, is_preempted=True)
        stage.see(ev.PodUpdated(going))


async def test_an_entitled_pod_gets_the_room_of_borrowed_work() -> None:
    async with playing(Stage(OWN)) as stage:
        setting(stage, borrowed("b-0"), borrowed("b-1"))
        await ticked(stage)
        own = pod("own", namespace="a", gpus=1)
        stage.see(ev.PodUpdated(own))
        reason, text = await heard(stage, "own")
        await stage.quiet()

        assert reason == "WaitingForCapacity"
        assert "reclaim: found a potential placement for pod on node n1, taking back 7" in text
        [action] = sent(stage)
        assert action.is_reclaim

        taken(stage, action)
        stage.see(ev.PodUpdated(pod("again", namespace="b", gpus=1, created=5)))
        await heard(stage, "again")
        await ticked(stage)
        assert len(sent(stage)) == 1, "it waits for the end of the first"

        stage.see(ev.PodDeleted(action.victims[0].uid))
        await ticked(stage)
        assert (await stage.binder.next()).pod.name == "own", "and not the victim"
        assert len(sent(stage)) == 1


async def test_nothing_else_ends_while_the_victims_end() -> None:
    async with playing(Stage(OWN)) as stage:
        setting(stage, msgspec.structs.replace(borrowed("b-0"), priority=1))
        await ticked(stage)
        own = pod("own", namespace="a", gpus=1, priority=1)
        stage.see(ev.PodUpdated(own))
        await heard(stage, "own")
        await stage.quiet()
        [action] = sent(stage)
        taken(stage, action)

        stage.see(ev.NodeUpdated(node("n2", gpus=1, labels=A100)))
        stage.see(ev.PodUpdated(msgspec.structs.replace(borrowed("low", "n2"), priority=0)))
        stage.see(ev.PodUpdated(msgspec.structs.replace(own, labels={"a": "b"})))
        await ticked(stage)

        assert "a terminating pod on the nominated node." in (await heard(stage, "own"))[1]
        assert len(sent(stage)) == 1


async def test_a_team_that_uses_less_takes_back_what_it_lacks() -> None:
    """The pod that ended made no room for the one that waits."""
    async with playing(Stage(OWN)) as stage:
        setting(stage, borrowed("b-0"), borrowed("b-1"))
        stage.see(ev.NodeUpdated(node("n2", gpus=2, labels=A100)))
        stage.see(ev.PodUpdated(pod("other", gpus=1, node="n2", phase="Running")))
        small = pod("small", namespace="a", gpus=1, node="n2", phase="Running")
        stage.see(ev.PodUpdated(small))
        await ticked(stage)
        stage.see(ev.PodUpdated(pod("own", namespace="a", gpus=2)))
        await heard(stage, "own")
        assert sent(stage) == []

        stage.see(ev.PodDeleted(small.uid))
        await stage.quiet()
        await ticked(stage, 20)

        assert len(sent(stage)) == 1


async def test_a_team_with_a_larger_guarantee_takes_back() -> None:
    async with playing(Stage(OWN)) as stage:
        setting(stage, borrowed("b-0"))
        stage.see(ev.TeamsRead(table(team("a"), team("b"))))
        await ticked(stage)
        stage.see(ev.PodUpdated(pod("own", namespace="a", gpus=1)))
        await heard(stage, "own")
        assert sent(stage) == []

        stage.see(ev.TeamsRead(TEAMS))
        await stage.quiet()
        await ticked(stage, 20)

        assert len(sent(stage)) == 1


def test_only_a_node_with_lent_work_wakes_a_pod_that_may_reclaim() -> None:
    lent, ours = node("n1", gpus=1, labels=A100), node("n2", gpus=1, labels=A100)
    own = pod("own", namespace="a", gpus=1, node="n2")
    state = cluster(TEAMS, lent, ours, borrowed("b-0"), own)
    asking = pod("more", namespace="a", gpus=1)
    of_kueue = pod("kueue", namespace="a", gpus=1, labels={"kueue.x-k8s.io/managed": "true"})

    assert OWN.post_filter_hint(state, asking, "n1")
    assert not OWN.post_filter_hint(state, asking, "n2")
    assert not OWN.post_filter_hint(state, of_kueue, "n1")
    state.upsert_pod(msgspec.structs.replace(own, is_deleting=True))
    assert OWN.post_filter_hint(state, asking, "n2")


async def test_a_group_gets_the_room_of_borrowed_work() -> None:
    async with playing(Stage(OWN)) as stage:
        setting(stage, borrowed("b-0"), borrowed("b-1"))
        await ticked(stage)
        group = members(2, 2, namespace="a", gpus=1)
        stage.see(*map(ev.PodUpdated, group))
        await heard(stage, group[-1].name)
        await stage.quiet()
        assert sum(len(one.victims) for one in sent(stage)) == 2

        for action in sent(stage):
            taken(stage, action)
        await ticked(stage)
        for action in sent(stage):
            stage.see(*(ev.PodDeleted(one.uid) for one in action.victims))
        await ticked(stage)
        bound = {(await stage.binder.next()).pod.name for _ in group}

        assert bound == {one.name for one in group}


async def test_young_work_is_taken_back_once_it_is_old_enough() -> None:
    async with playing(Stage(OWN)) as stage:
        setting(stage, borrowed("b-0", for_s=100))
        await ticked(stage)
        stage.see(ev.PodUpdated(pod("own", namespace="a", gpus=1)))
        assert "younger than the minimum run time" in (await heard(stage, "own"))[1]
        assert sent(stage) == []

        teams = msgspec.structs.replace(TEAMS, min_runtime_s=60)
        stage.see(ev.TeamsRead(teams))
        await ticked(stage, 20)
        await ticked(stage)

        assert [one.name for action in sent(stage) for one in action.victims] == ["b-0"]
