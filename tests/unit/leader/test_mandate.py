"""A leader decides only when its term has settled and its caches are new enough."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from scheduler.leadership.gate import LeaderGate


class FakeTerm:
    """An election whose outcome the test decides."""

    def __init__(self, *, is_enabled: bool = True) -> None:
        self.epoch: int | None = None
        self.is_enabled = is_enabled
        self.is_leading = not is_enabled
        self.taken = asyncio.Event()

    def leads(self) -> bool:
        return self.is_leading

    def take(self, epoch: int) -> None:
        self.epoch, self.is_leading = epoch, True
        self.taken.set()

    async def next_term(self, epoch: int | None) -> float:
        while self.epoch is None or self.epoch == epoch:
            self.taken.clear()
            await self.taken.wait()
        return float(self.epoch)


class FakeCache:
    """A cache that is listed when the test says so; remembers what was asked of it."""

    def __init__(self) -> None:
        self.is_healthy = True
        self.is_vital = True
        self.listed = asyncio.Event()
        self.was_asked = asyncio.Event()
        self.asked: list[float] = []

    async def newer_than(self, moment: float) -> None:
        self.asked.append(moment)
        self.was_asked.set()
        await self.listed.wait()


class World:
    """A mandate with everything it stands on."""

    def __init__(self, *, is_enabled: bool = True) -> None:
        self.term = FakeTerm(is_enabled=is_enabled)
        self.caches = [FakeCache(), FakeCache()]
        self.changes: asyncio.Queue[None] = asyncio.Queue()
        self.mandate = LeaderGate(
            self.term, self.caches, lambda: self.changes.put_nowait(None), settle_s=0.0
        )


async def test_without_an_election_it_may_decide_at_once() -> None:
    assert World(is_enabled=False).mandate.leads()


async def test_a_new_term_waits_for_every_cache_to_be_listed_after_it_began() -> None:
    world = World()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        running = group.create_task(world.mandate.run())
        world.term.take(7)
        world.caches[0].listed.set()
        await world.caches[1].was_asked.wait()
        assert not world.mandate.leads()

        world.caches[1].listed.set()
        await world.changes.get()

        assert world.mandate.leads()
        assert [cache.asked for cache in world.caches] == [[7.0], [7.0]]
        running.cancel()


async def test_a_term_is_announced_when_it_has_settled_and_not_before() -> None:
    world = World()
    with capture_logs() as lines:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            running = group.create_task(world.mandate.run())
            world.term.take(7)
            await world.caches[0].was_asked.wait()
            assert lines == []

            for cache in world.caches:
                cache.listed.set()
            await world.changes.get()
            running.cancel()
    assert [(line["event"], line["epoch"]) for line in lines] == [("leading", 7)]


async def test_a_term_that_was_lost_and_won_again_settles_anew() -> None:
    world = World()
    for cache in world.caches:
        cache.listed.set()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        running = group.create_task(world.mandate.run())
        world.term.take(7)
        await world.changes.get()
        for cache in world.caches:
            cache.listed.clear()
        world.term.take(9)
        assert not world.mandate.leads()

        for cache in world.caches:
            cache.listed.set()
        await world.changes.get()

        assert world.mandate.leads()
        assert [cache.asked for cache in world.caches] == [[7.0, 9.0], [7.0, 9.0]]
        running.cancel()


async def test_nobody_decides_while_a_watch_is_broken() -> None:
    world = World(is_enabled=False)
    world.caches[1].is_healthy = False

    assert not world.mandate.leads()


async def test_a_kind_that_no_decision_can_give_away_twice_is_not_waited_for() -> None:
    world = World(is_enabled=False)
    world.caches[1].is_healthy = False
    world.caches[1].is_vital = False

    assert world.mandate.leads()
