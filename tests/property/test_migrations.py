"""Weeks of a changing cluster: migrations stay rare, safe and useful."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import msgspec
import pytest
import structlog

from scheduler.model import well_known
from scheduler.model.crd.migration import MigrationKind
from scheduler.model.crd.migration_actions import EvictPod
from scheduler.model.crd.migration_result import MigrationResult
from scheduler.state.migration.history import Timings
from tests.builders import node, pod
from tests.migration_world import Workload, World

HOUR_S = 3600.0
SMALL = "nvidia.com/mig-1g.10gb"
TIMINGS = Timings(migrations_per_hour=2)
#: What the scheduler may say about a move that did not bring its tier.
EXCUSES = frozenset(MigrationResult) - {MigrationResult.SUCCEEDED}


@pytest.fixture(autouse=True)
def unheard() -> Iterator[None]:
    """Weeks of log lines are not kept."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.configure(**before)


class Chance:
    """What happens to a cluster by chance, from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        big, small = self.rng.randint(2, 3), self.rng.randint(3, 5)
        self.world = World(
            node("a", mig={"2g.20gb": big, "1g.10gb": small}),
            node("b", mig={"2g.20gb": 1, "1g.20gb": 1, "1g.10gb": 2}),
            timings=TIMINGS,
        )
        self.bare: list[str] = []
        for number in range(self.rng.randint(3, 5)):
            self.world.add(self._workload(f"w{number}"))

    def _workload(self, name: str) -> Workload:
        wish = {well_known.RESTORE: self.rng.choice(["auto", "auto", "auto", "never"])}
        return Workload(
            name,
            replicas=self.rng.randint(1, 2),
            tier=self.rng.choice(["2g.20gb", "2g.20gb", "2g.20gb", "1g.20gb"]),
            priority=self.rng.choice([0, 0, 0, 5]),
            annotations=self.rng.choice([{}, wish, wish, wish]),
            allowed=self.rng.choice([None, None, 0, 1]),
            grace_s=self.rng.choice([0.0, 0.0, 30.0, 400.0]),
            backoff_s=8.0,
        )

    def something_happens(self) -> None:
        """One event."""
        if len(self.bare) > 3:
            self.world.remove(self.bare.pop(0))
        one = self.rng.choice(list(self.world.workloads.values()))
        what = self.rng.choice([*(self._comes, self._goes) * 3, self._goes, self._dies])
        self.rng.choice([what, what, self._author, self._rare])(one)

    def _comes(self, _one: Workload) -> None:
        big, priority = {"2g.20gb": 1}, self.rng.choice([0, 9])
        made = self.world.create(pod("bare", uid="", mig=big, priority=priority))
        assert made is not None, "nothing refuses it"
        self.bare.append(made.uid)

    def _goes(self, _one: Workload) -> None:
        if self.bare:
            self.world.remove(self.bare.pop(self.rng.randrange(len(self.bare))))

    def _dies(self, one: Workload) -> None:
        mine = self.world.of(one.name)
        if mine:
            self.world.remove(self.rng.choice(mine).uid)

    def _author(self, one: Workload) -> None:
        workloads = self.world.workloads.values()
        match self.rng.randrange(3):
            case 0:
                one.replicas = self.rng.randint(0, 3)
            case 1:
                is_any = any(other.is_closed for other in workloads)
                for other in workloads:
                    other.is_closed = not is_any and other is one
            case 2:
                one.allowed = self.rng.choice([None, 0, 1])

    def _rare(self, one: Workload) -> None:
        match self.rng.randrange(3):
            case 0:
                one.revision = f"r{self.rng.randrange(1000)}"
            case 1:
                self.world.restart()
            case 2:
                mine = self.world.of(one.name)
                if mine:
                    victim = self.rng.choice(mine)
                    self.world.show(msgspec.structs.replace(victim, crashes=victim.crashes + 1))

    def play(self, hours: float) -> None:
        """Let time pass; it is looked at more closely while something is under way."""
        world = self.world
        end, next_at = world.now + hours * HOUR_S, world.now
        while world.now < end:
            if world.now >= next_at:
                self.something_happens()
                next_at = world.now + self.rng.expovariate(1 / 400.0)
            is_busy = world.open or world.moves.open
            world.tick(2.0 if is_busy else min(60.0, max(1.0, next_at - world.now)))
            world.check()


def judge(world: World) -> None:
    """No workload exceeds its limit, and every migration ends with its tier or a reason."""
    per_workload: dict[str, list[float]] = {}
    for at, action in world.sent(EvictPod):
        assert isinstance(action, EvictPod)
        migration, result = world.ended[action.migration.id]
        assert result in {MigrationResult.SUCCEEDED, *EXCUSES}
        per_workload.setdefault(migration.workload, []).append(at)
    for times in per_workload.values():
        for first in times:
            within = sum(1 for at in times if 0 <= at - first < HOUR_S)
            assert within <= TIMINGS.migrations_per_hour
    reasons = sum(1 for _, reason, _ in world.notes if reason == "MigrationFailed")
    assert reasons >= sum(1 for _, result in world.ended.values() if result in EXCUSES)
    done = [
        migration
        for migration, result in world.ended.values()
        if result is MigrationResult.SUCCEEDED
    ]
    assert all(migration.target != migration.source for migration in done)
    assert not any(SMALL in one.target for one in done if one.move is MigrationKind.RESTORE)


def play_and_judge(seed: int, hours: float) -> None:
    chance = Chance(seed)

    chance.play(hours)
    world = chance.world
    world.workloads.clear()
    world.pass_time(600.0, 5.0)

    judge(world)
    assert world.stored == {}
    restored = [one for one, result in world.ended.values() if result is MigrationResult.SUCCEEDED]
    assert len(restored) >= 10, "too quiet a world to show anything"


@pytest.mark.contract("S3-B2", "S3-B11", "S3-B12")
@pytest.mark.parametrize("seed", [2, 4, 6, 7, 8])
def test_migrations_stay_rare_and_safe_for_200_hours(seed: int) -> None:
    """Five times: a thousand hours in all."""
    play_and_judge(seed, 200.0)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 110))
def test_migrations_stay_rare_and_safe_for_1000_hours(seed: int) -> None:
    """The same for longer, and in more clusters."""
    play_and_judge(seed, 1000.0)
