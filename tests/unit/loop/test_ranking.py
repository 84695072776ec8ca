"""The journal looks for the runner-up after the Binding was sent, on the state before it."""

from __future__ import annotations

import random
from typing import Any

from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.score_breakdown import Ranking, rank
from scheduler.framework.decision import Decision, Placement
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.unit.loop.loop_world import Stage, playing

NODES = [
    node("n1", gpus=4, with_gpu_indexes=True),
    node("n2", gpus=2, with_gpu_indexes=True, cpu="8"),
    node("n3", gpus=8, with_gpu_indexes=True, labels={"zone": "a"}),
    node("m1", mig={"1g.10gb": 4, "2g.20gb": 2}),
]


async def test_a_placement_is_ranked_after_its_binding_was_started() -> None:
    stage = Stage()
    ranked_at_start: list[bool] = []
    start = stage.binder.start

    def watched(placement: Placement, decision_id: str) -> None:
        [record] = stage.journal.newest()
        ranked_at_start.append(record.ranking is not None)
        start(placement, decision_id)

    stage.binder.start = watched  # type: ignore[method-assign] # a spy around it
    async with playing(stage):
        stage.sync()
        stage.see(*map(ev.NodeUpdated, NODES), ev.PodUpdated(pod("a", gpus=1)))
        await stage.binder.next()
        await stage.quiet()

    [record] = stage.journal.newest()
    assert ranked_at_start == [False]
    assert record.ranking is not None
    assert record.ranking.runner_up is not None


async def test_the_ranking_is_that_of_the_state_before_the_placement() -> None:
    """Also where preemptors hold nodes, and where pods of every kind come and go."""
    expected: dict[str, Ranking | None] = {}

    def decider(view: Any, newcomer: Any, profile: Any, work: Any) -> Decision:
        decision = schedule_one(view, newcomer, profile, work)
        if isinstance(decision, Placement):
            expected[newcomer.name] = rank(view, decision, profile)
        return decision

    rng = random.Random(3)
    stage = Stage(decider=decider)
    async with playing(stage):
        stage.sync()
        stage.see(*map(ev.NodeUpdated, NODES))
        stage.see(ev.PodUpdated(pod("holds", gpus=2, priority=9, nominated="n1", gates=["x"])))
        for number in range(60):
            fields: Any = rng.choice(
                [
                    {"gpus": 1},
                    {"gpus": 2},
                    {"mig": {"1g.10gb": 1}},
                    {"requests": {"cpu": "1"}},
                    {"gpus": 1, "nominated": "n3", "priority": 5},
                ]
            )
            stage.see(ev.PodUpdated(pod(f"p{number}", uid=f"u{number}", **fields)))
            await stage.quiet()
            if number % 3 == 2:
                stage.see(ev.PodDeleted(f"u{number - 2}"))
        await stage.quiet()

    records = {one.name: one for one in stage.journal.newest() if one.placement is not None}
    assert len(records) > 20
    assert {name: one.ranking for name, one in records.items()} == {
        name: expected[name] for name in records
    }
