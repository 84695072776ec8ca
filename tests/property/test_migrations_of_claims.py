"""Days of a changing cluster with claims: restores are safe, and hold nothing in the end."""

from __future__ import annotations

import random

import pytest

from scheduler.model import well_known
from scheduler.model.crd.migration_actions import CreateMigration, EvictPod
from scheduler.model.crd.migration_result import MigrationResult
from tests.claim_migration_world import ClaimWorld, devices, either
from tests.dra import claiming
from tests.migration_world import Workload

AUTO = {well_known.RESTORE: "auto"}


def play(seed: int, hours: float) -> ClaimWorld:
    """Pods with a large device come and go, replicas change, and the scheduler restarts."""
    rng = random.Random(seed)
    world = ClaimWorld(devices("n1", large=2, small=2), devices("n2", large=1, medium=1, small=2))
    world.templates["large"] = (either("large"),)
    spec = claiming(templates={"accel": "either"})
    for number in range(2):
        named = f"w{number}"
        world.add(Workload(named, 2, tier="", annotations=AUTO, fields={"spec": spec}))
    users: list[str] = []
    end = world.now + hours * 3600.0
    while world.now < end:
        match rng.randrange(6):
            case 0 | 1 if len(users) < 4:
                priority = rng.choice([0, 0, 9])
                users.append(world.user("large", template="large", priority=priority).uid)
            case 2 | 3 if users:
                world.remove(users.pop(rng.randrange(len(users))))
            case 4:
                one = rng.choice(list(world.workloads.values()))
                one.replicas, one.is_closed = rng.randint(1, 3), rng.random() < 0.2
            case 5:
                world.restart()
        for _ in range(rng.randint(1, 40)):
            world.tick(rng.choice([1.0, 1.0, 10.0]))
            world.check()
            assert len(world.cluster.nominations.plans) <= len(world.moves.open)
    for one in world.workloads.values():
        one.is_closed = False
    world.pass_time(1800.0, 10.0)
    return world


@pytest.mark.parametrize("seed", range(6))
def test_restores_give_no_device_twice_and_end_or_have_a_reason(seed: int) -> None:
    world = play(seed, 12.0)

    assert (world.open, world.cluster.nominations.plans) == ({}, {})
    assert len(world.sent(EvictPod)) <= len(world.sent(CreateMigration))
    for migration, result in world.ended.values():
        assert all(name.endswith("/large") for name in migration.target), migration
        assert migration.devices, migration
        assert result in MigrationResult
    world.check()


@pytest.mark.parametrize("seed", range(6))
def test_no_pod_stays_degraded_beside_a_free_device(seed: int) -> None:
    """After half an hour without another event."""
    world = play(seed, 6.0)

    used = [name.partition("-")[0] for one in world.pods.values() for name in world.devices_of(one)]
    assert used.count("large") == 3 or set(used) <= {"large"}, used
    assert not any(reason == "MigrationSuspended" for _, reason, _ in world.notes)


def test_restores_happen_and_succeed() -> None:
    """Of several seeds together: otherwise the sentences above say nothing."""
    results = [r for seed in range(6) for r in play(seed, 6.0).results]

    assert results.count(("Restore", "succeeded")) >= 6, results
