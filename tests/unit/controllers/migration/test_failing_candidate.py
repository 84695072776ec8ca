"""A candidate with an internal error is skipped, and other migrations continue."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.migration import restore
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from tests.builders import node, pod
from tests.migration_world import Workload, World

MINUTE_S = 60.0


def failing_at(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    look = restore.restorable

    def restorable(cluster: Any, reservations: Any, waiting: Any, one: Pod, profile: Any) -> Any:
        if one.name.startswith(prefix):
            raise ValueError("ours")
        return look(cluster, reservations, waiting, one, profile)

    monkeypatch.setattr(restore, "restorable", restorable)


def errors(world: World) -> float:
    """Internal errors that were contained at one migration or candidate."""
    name, labels = "gpu_scheduler_internal_errors_total", {"part": "move"}
    return world.metrics.registry.get_sample_value(name, labels) or 0.0


def test_failing_candidate_is_retried_with_growing_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = node("cut", mig={"2g.20gb": 2, "1g.10gb": 4})
    world = World(there, contains=True)
    holders = [world.create(pod(f"h{n}", uid="", mig={"2g.20gb": 1})) for n in range(2)]
    world.decide_due()
    world.add(Workload("bad", replicas=2, priority=10))
    world.add(Workload("good", replicas=2))
    assert set(world.tiers("bad") + world.tiers("good")) == {"1g.10gb"}
    failing_at(monkeypatch, "bad")
    for holder in holders:
        assert holder is not None
        world.remove(holder.uid)
    world.pass_time(5 * MINUTE_S)

    assert set(world.tiers("good")) == {"2g.20gb"}
    assert set(world.tiers("bad")) == {"1g.10gb"}
    assert 2 <= errors(world) <= 8, "after 30, 60, 120 s and not every second"


def test_unrecordable_ticket_hides_no_other_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(node("cut", mig={"1g.10gb": 4}), contains=True)
    recalled: list[str] = []

    def recall(_: Any, one: Pod) -> None:
        if one.name == "bad":
            raise ValueError("ours")
        recalled.append(one.name)

    monkeypatch.setattr("scheduler.state.migration.history.MigrationHistory.recall", recall)
    for name in ("bad", "good"):
        ticket = {well_known.MIGRATION: f"of-{name}"}
        made = pod(name, uid=name, node="cut", mig={"1g.10gb": 1}, annotations=ticket)
        world.pods[name] = made
    world.restart()

    assert recalled == ["good"]
    assert errors(world) == 1


@pytest.mark.parametrize(
    ("scheduler", "move", "is_learned"),
    [
        ("gpu-scheduler", "restore-3-5f2a", True),
        ("other", "restore-3-5f2a", False),
        ("gpu-scheduler", f"a-{'9' * 5_000}-b", False),
    ],
    ids=["ours", "another-schedulers", "no-name-of-a-ticket"],
)
def test_only_our_pods_restore_a_ticket(scheduler: str, move: str, is_learned: bool) -> None:
    said = {
        well_known.MIGRATION: move,
        well_known.ORIGINAL: "{}",
        well_known.FALLBACK: "2g.20gb->1g.10gb",
    }
    one = pod("web-x", owner="Deployment/web@r1", node="cut", scheduler=scheduler, annotations=said)
    world = World(node("cut", mig={"1g.10gb": 4}))
    world.pods[one.uid] = one
    world.restart()

    found = world.moves._history.blocker(one, world.now + 1)
    assert (found is not None) is is_learned
