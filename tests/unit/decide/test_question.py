"""An answer about a pending pod takes a bounded number of steps, in bounded parts.

Counted in steps and parts; nothing here is timed.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.decide.explain import Outcome
from scheduler.decide.remedy import search
from scheduler.decide.remedy.of_pods import PART
from scheduler.decide.remedy.outlook import Outlook, Searched
from scheduler.decide.remedy.question import DECISIONS_MAX, answer, budget
from scheduler.decide.schedule_one import place
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.parts import Parts, finish
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.unit.plugins.preemption.scene import OWN, running

NODES = 40
LOADED = 100
NEVER = {"preemptionPolicy": "Never"}


def limited(steps: int, pipeline: Pipeline = ALLOW_ALL_MAPS) -> Pipeline:
    return msgspec.structs.replace(pipeline, decision_steps_max=steps)


def crowded(nodes: int = NODES, held: int = LOADED, **fields: Any) -> Cluster:
    """Nodes whose GPUs another namespace holds, with many pods without GPUs of the pod's own."""
    names = [f"n{at:02}" for at in range(nodes)]
    holders = [running(f"g-{name}", on=name, gpus=2, namespace="lab", **fields) for name in names]
    pods = [
        running(f"{name}-{at}", on=name, requests={"cpu": "1m"}, **fields)
        for name in names
        for at in range(held)
    ]
    return cluster(*(node(name, gpus=2, pods=500) for name in names), *holders, *pods)


def steps_of(parts: Parts[tuple[Outcome, Outlook]]) -> list[int]:
    """The steps of each part."""
    return list(parts)


def test_a_part_takes_at_most_the_steps_of_two_decisions() -> None:
    few = limited(500, OWN)
    boss = pod("boss", gpus=2, priority=9, spec=NEVER, selector={f"l{at}": "x" for at in range(9)})

    steps = steps_of(answer(crowded(priority=3), boss, few))

    assert max(steps) <= 2 * few.decision_steps_max + LOADED
    assert sum(steps) <= DECISIONS_MAX * few.decision_steps_max + 2 * few.decision_steps_max


def test_scan_of_pods_pauses_after_a_part() -> None:
    steps = steps_of(answer(crowded(), pod("p", gpus=2), ALLOW_ALL_MAPS))

    assert len([one for one in steps if one >= PART]) == NODES * LOADED // PART
    assert max(steps) < PART + LOADED


def test_scan_of_pods_ends_at_the_limit_and_says_how_far_it_came() -> None:
    few = limited(200)

    _, outlook = finish(answer(crowded(), pod("p", gpus=2), few))

    assert outlook.searched is not None
    assert 0 < outlook.searched.parts < outlook.searched.of
    assert outlook.searched.of >= NODES


def test_complete_search_says_nothing_about_its_extent() -> None:
    _, outlook = finish(answer(crowded(), pod("p", gpus=2), ALLOW_ALL_MAPS))

    assert outlook.searched is None


def test_edits_beyond_the_limit_are_counted_and_not_tried() -> None:
    waiting = pod("p", gpus=1, selector={f"l{at}": "x" for at in range(4)})
    state = cluster(node("n1", gpus=1))
    work = budget(ALLOW_ALL_MAPS)
    work.spend(work.limit - 1)

    _, outlook = finish(answer(state, waiting, ALLOW_ALL_MAPS, work))

    assert outlook.remedies == ()
    assert outlook.searched == Searched(parts=1, of=6)


def test_tries_are_bounded_in_number_and_each_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node(f"n{at}", gpus=1, taints=[f"t{at}:NoSchedule"]) for at in range(NODES)]
    waiting = pod("p", gpus=8, selector={f"l{at}": "x" for at in range(NODES)})
    limits: list[int] = []

    def counted(view: Any, tried: Pod, pipeline: Pipeline, work: Any) -> Any:
        limits.append(work.limit)
        return place(view, tried, pipeline, work)

    monkeypatch.setattr("scheduler.decide.remedy.search.place", counted)

    finish(answer(cluster(*nodes), waiting, ALLOW_ALL_MAPS))

    assert 0 < len(limits) <= search.TRIES_MAX
    assert set(limits) == {ALLOW_ALL_MAPS.decision_steps_max}


@pytest.mark.parametrize("after", range(1, 6), ids=lambda part: f"after-part-{part}")
def test_state_may_change_between_two_parts(after: int) -> None:
    tainted, cordoned = node("n1", gpus=2, taints=["a=b:NoSchedule"]), node("n3", cordoned=True)
    state = cluster(tainted, node("n2", gpus=2), cordoned, running("a", on="n2", gpus=2))
    parts = answer(state, pod("boss", gpus=2, priority=9, spec=NEVER), OWN)
    for _ in range(after):
        next(parts)

    state.delete_pod("team-a")
    for name in ("n1", "n2", "n3"):
        state.delete_node(name)
    _, outlook = finish(parts)

    assert len(outlook.remedies) < after
