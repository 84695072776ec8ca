"""The feed's pace, its turns and its rests, on a clock that a test sets; the history's ring."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler.report.dashboard.assets import read_assets
from scheduler.report.dashboard.contents import Content, PageKey
from scheduler.report.dashboard.feed import (
    REST,
    REST_MAX_S,
    DashboardFeed,
    Published,
    TooManyListeners,
)
from scheduler.report.dashboard.pages.history import SAMPLES_MAX, STEP_S, History
from scheduler.report.dashboard.sampler import LOOK_S, Sampler
from scheduler.report.wall_times import WallTimes
from scheduler.state import event as ev
from scheduler.state.capacity.node_devices import DeviceAmount
from tests.builders import pod
from tests.dashboard_world import NOON, DashboardWorld
from tests.unit.loop.loop_world import Clock, playing

TEAMS, NODES = PageKey("teams"), PageKey("nodes")


class Slow(Clock):
    """Each reading takes a while: the time of a part is one step."""

    step_s = 0.0

    def __call__(self) -> float:
        self.now += self.step_s
        return super().__call__()


@asynccontextmanager
async def feeding(world: DashboardWorld) -> AsyncIterator[DashboardFeed]:
    """The filled world with its feed."""
    async with playing(world.stage):
        await world.fill()
        feed = asyncio.create_task(world.feed.run())
        try:
            yield world.feed
        finally:
            feed.cancel()
            await asyncio.gather(feed, return_exceptions=True)


async def test_feed_rests_for_a_multiple_of_its_work() -> None:
    clock = Slow()
    world = DashboardWorld(feed_clock=clock, interval_s=0.001)
    async with feeding(world) as feed, feed.listening(TEAMS) as page:
        clock.step_s = 0.01
        seen = await page.after(None)
        clock.step_s = 0.0
        rested_at = clock.now + REST * feed.spent_s
        world.stage.see(ev.PodUpdated(pod("more", gpus=64)))
        await world.stage.quiet()
        clock.now = rested_at - 0.1
        async with feed.listening(NODES) as other:  # due at once, and wakes the feed
            await other.after(None)
        assert (feed.computed, page.last) == (2, seen)

        clock.now = rested_at + 0.1
        async with feed.listening(PageKey("health")) as other:
            await other.after(None)
        await page.after(seen)


async def test_a_slow_page_lengthens_the_interval() -> None:
    clock = Slow()
    world = DashboardWorld(feed_clock=clock, interval_s=1.0)
    async with playing(world.stage):
        await world.fill()
        clock.step_s = 10.0
        first = await world.feed.answer(NODES)

    assert f'"refreshS":{REST_MAX_S}'.encode() in first


async def test_a_recent_page_answers_without_work() -> None:
    clock = Clock()
    world = DashboardWorld(feed_clock=clock, interval_s=1.0)
    async with feeding(world) as feed, feed.listening(TEAMS) as page:
        first = await page.after(None)
        assert await feed.answer(TEAMS) == first.body
        assert feed.computed == 1
        clock.now += 2.0
        await feed.answer(TEAMS)

    assert feed.computed == 2


async def test_pages_take_turns_after_a_rest() -> None:
    clock = Clock()
    world = DashboardWorld(feed_clock=clock)
    feed = world.feed
    async with feed.listening(TEAMS) as teams, feed.listening(NODES) as nodes:
        teams.last = nodes.last = Published(Content("ok"), b"")
        teams.next_at, nodes.next_at = clock.now + 1.5, clock.now + 1.0
        feed.rest(10.0)
        first = feed.due()
        nodes.next_at = clock.now + 2.0
        second = feed.due()
        async with feed.listening(PageKey("health")):
            third = feed.due()

    assert first is not None
    assert second is not None
    assert third is not None
    assert (first[0], first[2]) == (NODES, clock.now + 10.0)
    assert (second[0], second[2]) == (TEAMS, clock.now + 10.0)
    assert third[0] == PageKey("health"), "a page without data does not wait for the rest"


async def test_listeners_are_counted_and_limited() -> None:
    world = DashboardWorld(listeners_max=2)
    async with world.feed.listening(TEAMS), world.feed.listening(TEAMS):
        assert world.feed.listeners.open == 2
        with pytest.raises(TooManyListeners, match="2 pages are open already"):
            async with world.feed.listening(NODES):
                pytest.fail("it is one too many")

    assert world.feed.listeners.open == 0


async def test_pages_wait_for_their_turn_among_questions() -> None:
    world = DashboardWorld()
    async with playing(world.stage):
        await world.fill()
        async with world.questions.turn():
            page = asyncio.create_task(world.feed.answer(TEAMS))
            for _ in range(50):
                await asyncio.sleep(0)
            assert world.feed.computed == 0
        await page

    assert world.feed.computed == 1


# --- history -----------------------------------------------------------------------------------


def test_history_keeps_the_last_day() -> None:
    history = History()
    for at in range(SAMPLES_MAX + 5):
        devices = {"gpu": DeviceAmount(8, at, 0, 0), "1g.5gb": DeviceAmount(7, 1, 6, 0)}
        history.add(at * STEP_S, {**devices, "3g.20gb": DeviceAmount(1, 1, 0, 0)}, at)
    columns = history.columns()

    assert len(columns.times) == SAMPLES_MAX == 288
    assert columns.times[0] == 5 * STEP_S
    assert (columns.gpus.held[-1], columns.slices.held[-1]) == (SAMPLES_MAX + 4, 2)
    assert columns.waiting_pods[0] == 5


async def test_only_the_leader_takes_samples() -> None:
    world = DashboardWorld()
    async with playing(world.stage):
        await world.fill()
        world.election.is_leading = False
        assert not await world.sampler.sample()
        world.election.is_leading = True
        assert await world.sampler.sample()

    columns = world.history.columns()
    assert columns.times == (int(NOON.timestamp()),)
    assert (columns.gpus.total, columns.gpus.held, columns.waiting_pods) == ((16,), (4,), (4,))


async def test_samples_come_at_their_interval() -> None:
    world = DashboardWorld()
    rests: list[float] = []

    def ending_after(count: int) -> Callable[[float], Awaitable[None]]:
        async def pause(seconds: float) -> None:
            rests.append(seconds)
            world.election.is_leading = True
            if len(rests) == count:
                raise asyncio.CancelledError

        return pause

    async with playing(world.stage):
        await world.fill()
        world.election.is_leading = False
        sampler = Sampler(
            *(world.capacity, world.history, world.contents, world.questions, world.wall),
            pause=ending_after(3),
        )
        with pytest.raises(asyncio.CancelledError):
            await sampler.run()

    assert rests == [LOOK_S, STEP_S, STEP_S]


# --- times and files ---------------------------------------------------------------------------


def test_a_moment_has_one_timestamp_until_the_clock_is_set() -> None:
    clock = Clock()
    world = DashboardWorld()
    world.stage.clock = clock
    times = WallTimes(clock, world.wall)
    before = times.now().at(1000.5)
    clock.now += 3600.0
    after = times.now().at(1000.5)
    moved = WallTimes(clock, lambda: NOON)
    moved.now()
    clock.now += 10.0

    assert before == after == "2026-11-27T12:00:00.500000Z"
    assert moved.now().at(clock.now) == "2026-11-27T12:00:00.000000Z"


def test_only_known_files_of_the_folder_are_served(tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    for name in ("index.html", "vendor/chart.js", "README.md", "key.pem"):
        (tmp_path / name).write_text(name)
    (tmp_path / "outside.js").symlink_to("/etc/hostname")
    assets = read_assets(tmp_path)

    assert list(assets) == ["index.html", "vendor/chart.js"]
    assert assets["vendor/chart.js"].content_type == "text/javascript"
    assert len({one.etag for one in assets.values()}) == 2
