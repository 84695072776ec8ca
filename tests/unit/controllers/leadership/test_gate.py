"""A leader decides only when its term has settled and its caches are new enough."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.watch.inbox import Inbox
from tests.patience import PATIENCE_S


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
    """A cache that is listed when the test sets it; records the calls."""

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


class Woken(Inbox):
    """Counts the wake-ups of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.wakes: asyncio.Queue[None] = asyncio.Queue()

    def wake(self) -> None:
        self.wakes.put_nowait(None)


class World:
    """A gate with its election and caches."""

    def __init__(self, *, is_enabled: bool = True) -> None:
        self.term = FakeTerm(is_enabled=is_enabled)
        self.caches = [FakeCache(), FakeCache()]
        self.inbox = Woken()
        self.gate = LeaderGate(self.term, self.caches, self.inbox, settle_s=0.0)


async def test_without_leader_election_decisions_start_at_once() -> None:
    assert World(is_enabled=False).gate.leads()


async def test_a_new_term_waits_for_every_cache_to_be_listed_after_it_began() -> None:
    world = World()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        running = group.create_task(world.gate.run())
        world.term.take(7)
        world.caches[0].listed.set()
        await world.caches[1].was_asked.wait()
        assert not world.gate.leads()

        world.caches[1].listed.set()
        await world.inbox.wakes.get()

        assert world.gate.leads()
        assert [cache.asked for cache in world.caches] == [[7.0], [7.0]]
        running.cancel()


async def test_caches_are_listed_after_former_objects_were_copied() -> None:
    world = World()
    began: list[float] = []

    async def adopt(since: float) -> float:
        began.append(since)
        return 9.0

    gate = LeaderGate(world.term, world.caches, world.inbox, settle_s=0.0, adopt=adopt)
    for cache in world.caches:
        cache.listed.set()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        running = group.create_task(gate.run())
        world.term.take(7)
        await world.inbox.wakes.get()
        running.cancel()
    assert began == [7.0]
    assert [cache.asked for cache in world.caches] == [[9.0], [9.0]]


async def test_term_is_announced_after_caches_synced() -> None:
    world = World()
    with capture_logs() as lines:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            running = group.create_task(world.gate.run())
            world.term.take(7)
            await world.caches[0].was_asked.wait()
            assert lines == []

            for cache in world.caches:
                cache.listed.set()
            await world.inbox.wakes.get()
            running.cancel()
    assert [(line["event"], line["epoch"]) for line in lines] == [("leading", 7)]


async def test_term_that_was_lost_and_won_again_waits_for_caches_again() -> None:
    world = World()
    for cache in world.caches:
        cache.listed.set()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        running = group.create_task(world.gate.run())
        world.term.take(7)
        await world.inbox.wakes.get()
        for cache in world.caches:
            cache.listed.clear()
        world.term.take(9)
        assert not world.gate.leads()

        for cache in world.caches:
            cache.listed.set()
        await world.inbox.wakes.get()

        assert world.gate.leads()
        assert [cache.asked for cache in world.caches] == [[7.0, 9.0], [7.0, 9.0]]
        running.cancel()


async def test_broken_watch_stops_decisions() -> None:
    world = World(is_enabled=False)
    world.caches[1].is_healthy = False

    assert not world.gate.leads()


async def test_kind_that_cannot_cause_double_assignment_is_not_awaited() -> None:
    world = World(is_enabled=False)
    world.caches[1].is_healthy = False
    world.caches[1].is_vital = False

    assert world.gate.leads()


async def test_the_gate_is_open_once_every_cache_was_filled() -> None:
    world = World(is_enabled=False)
    assert not world.gate.is_open()

    world.gate.sync()

    assert world.gate.is_open()
    assert world.inbox.wakes.qsize() == 1
    world.term.is_leading = False
    assert not world.gate.is_open()
