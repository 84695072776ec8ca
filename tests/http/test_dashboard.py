"""The dashboard over real HTTP, beside a real loop: files, data, events and their limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from scheduler.report.dashboard.contents import PAGES
from scheduler.report.dashboard.routes import DashboardRoutes
from scheduler.report.decisions.guard import guarded
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.dashboard_world import IDENTITY, DashboardWorld
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import playing

LEADER = IDENTITY.partition("_")[0]


class Browser:
    """A client of the dashboard."""

    def __init__(self, world: DashboardWorld, session: aiohttp.ClientSession, url: str) -> None:
        self.world = world
        self.url = url
        self._session = session

    async def get(self, path: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
        """The response and its body; redirects are not followed."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.get(
            self.url + path, headers=names, allow_redirects=False
        ) as response:
            return response, await response.read()

    async def page(self, path: str) -> dict[str, Any]:
        """The JSON of a page."""
        response, body = await self.get(path)
        assert response.status == 200, body
        found: dict[str, Any] = msgspec.json.decode(body)
        return found

    @asynccontextmanager
    async def listening(self, query: str) -> AsyncIterator[Events]:
        """An EventSource."""
        async with self._session.get(f"{self.url}/dashboard/events?{query}") as response:
            assert response.status == 200, await response.read()
            assert response.content_type == "text/event-stream"
            yield Events(response)


class Events:
    """The events of one stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def block(self) -> list[str]:
        """The lines up to the next empty one."""
        lines: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while line := (await self.response.content.readline()).decode().rstrip("\n"):
                lines.append(line)
        return lines

    async def next(self) -> dict[str, Any]:
        """The data of the next event; comments and settings are skipped."""
        while True:
            lines = await self.block()
            if lines[0] == "event: page":
                found: dict[str, Any] = msgspec.json.decode(lines[1].removeprefix("data: "))
                return found


@asynccontextmanager
async def browsing(
    folder: Path, heartbeat_s: float = PATIENCE_S, **settings: Any
) -> AsyncIterator[Browser]:
    """The dashboard of a filled world, whose feed has a real clock."""
    world = DashboardWorld(feed_clock=time.monotonic, **settings)
    app = web.Application(middlewares=[guarded])
    DashboardRoutes(world.feed, folder, heartbeat_s).add_to(app)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    async with playing(world.stage), aiohttp.ClientSession() as session:
        await world.fill()
        feed = asyncio.create_task(world.feed.run())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Browser(world, session, f"http://127.0.0.1:{runner.addresses[0][1]}")
        await runner.cleanup()
        feed.cancel()
        await asyncio.gather(feed, return_exceptions=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text("<!doctype html><title>gpu-scheduler</title>")
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "app.js").write_text("export const answer = 42;")
    (tmp_path / "secret.key").write_text("not served")
    return tmp_path


@pytest.fixture
async def browser(folder: Path) -> AsyncIterator[Browser]:
    async with browsing(folder) as found:
        yield found


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/dashboard/", "/dashboard/nodes", "/dashboard/pods/team-nlp/train-0", "/dashboard/x?zone=a"],
)
async def test_every_page_url_returns_the_index(browser: Browser, path: str) -> None:
    response, body = await browser.get(path)

    assert response.status == 200
    assert response.content_type == "text/html"
    assert body.startswith(b"<!doctype html>")


async def test_the_bare_path_redirects_to_the_pages(browser: Browser) -> None:
    response, _ = await browser.get("/dashboard")

    assert (response.status, response.headers["Location"]) == (302, "/dashboard/")


async def test_files_have_a_strict_policy_and_no_inline_code(browser: Browser) -> None:
    for path in ("/dashboard/", "/dashboard/assets/vendor/app.js", "/dashboard/data/nodes"):
        response, _ = await browser.get(path)
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"


async def test_an_unchanged_file_is_not_sent_again(browser: Browser) -> None:
    first, body = await browser.get("/dashboard/assets/vendor/app.js")
    again, nothing = await browser.get(
        "/dashboard/assets/vendor/app.js", If_None_Match=first.headers["ETag"]
    )

    assert (first.status, first.content_type, body[:6]) == (200, "text/javascript", b"export")
    assert (again.status, nothing) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/dashboard/assets/secret.key",
        "/dashboard/assets/..%2f..%2fconfig.py",
        "/dashboard/assets/%2e%2e/x.js",
        "/dashboard/assets//etc/passwd",
    ],
)
async def test_no_path_reaches_other_files(browser: Browser, path: str) -> None:
    async with browser._session.get(
        browser.url.removesuffix("/") + path, allow_redirects=False
    ) as response:
        body = await response.read()

    assert response.status == 404 or body.startswith(b"<!doctype html>")
    assert b"root:" not in body
    assert b"not served" not in body


# --- data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in PAGES if name != "pod"])
async def test_every_page_has_its_envelope(browser: Browser, name: str) -> None:
    page = await browser.page(f"/dashboard/data/{name}")

    assert (page["kind"], page["page"], page["state"]) == ("DashboardPage", name, "ok")
    assert (page["leader"], page["scheduler"]) == (LEADER, "gpu-scheduler")
    assert page["data"]


async def test_a_pod_is_found_by_its_name(browser: Browser) -> None:
    found = await browser.page("/dashboard/data/pod?namespace=team-nlp&name=train-0")
    unknown = await browser.page("/dashboard/data/pod?namespace=team-nlp&name=none")

    assert found["data"]["standing"] == "waits"
    assert (unknown["state"], unknown["data"]) == ("unknown", None)
    assert "team-nlp/none is unknown" in unknown["message"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/dashboard/data/none", 404),
        ("/dashboard/data/pod?namespace=a", 400),
        (f"/dashboard/data/pod?namespace=a&name={'x' * 300}", 400),
        ("/dashboard/events", 404),
        ("/dashboard/events?page=pod", 400),
    ],
)
async def test_a_wrong_request_gets_one_line(browser: Browser, path: str, status: int) -> None:
    response, body = await browser.get(path)

    assert response.status == status
    assert msgspec.json.decode(body)["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(browser: Browser, method: str) -> None:
    for path in ("/dashboard/data/nodes", "/dashboard/events?page=nodes", "/dashboard/"):
        async with browser._session.request(method, browser.url + path) as response:
            assert response.status == 405


async def test_a_follower_names_the_leader(browser: Browser) -> None:
    browser.world.election.is_leading = False
    browser.world.election.holder = "gpu-scheduler-other_1"
    page = await browser.page("/dashboard/data/nodes")
    async with browser.listening("page=waiting") as events:
        event = await events.next()

    for answer in (page, event):
        assert (answer["state"], answer["data"]) == ("standby", None)
        assert answer["leader"] == "gpu-scheduler-other"
        assert "the leader is gpu-scheduler-other" in answer["message"]
    assert browser.world.feed.computed == 0


# --- who may ask -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Host": "attacker.example"}, id="dns-rebinding"),
        pytest.param({"Origin": "http://attacker.example"}, id="foreign-origin"),
        pytest.param({"Sec_Fetch_Site": "cross-site"}, id="cross-site"),
        pytest.param(
            {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}, id="script-tag"
        ),
        pytest.param(
            {
                "Sec_Fetch_Site": "cross-site",
                "Sec_Fetch_Mode": "navigate",
                "Sec_Fetch_Dest": "iframe",
            },
            id="frame",
        ),
    ],
)
async def test_foreign_pages_get_nothing(browser: Browser, headers: dict[str, str]) -> None:
    for path in ("/dashboard/", "/dashboard/data/nodes", "/dashboard/events?page=nodes"):
        response, _ = await browser.get(path, **headers)
        assert response.status == 403


async def test_a_link_leads_to_a_page_but_not_to_its_data(browser: Browser) -> None:
    link = {
        "Sec_Fetch_Site": "cross-site",
        "Sec_Fetch_Mode": "navigate",
        "Sec_Fetch_Dest": "document",
    }
    page, _ = await browser.get("/dashboard/pods/team-nlp/train-0", **link)
    data, _ = await browser.get("/dashboard/data/nodes", **link)
    events, _ = await browser.get("/dashboard/events?page=nodes", **link)
    api, _ = await browser.get("/decisions", **link)

    assert [one.status for one in (page, data, events, api)] == [200, 403, 403, 403]


# --- events ------------------------------------------------------------------------------------


async def test_an_event_comes_at_once_and_after_a_change(browser: Browser) -> None:
    async with browser.listening("page=nodes") as events:
        first = await events.next()
        browser.world.stage.see(ev.NodeUpdated(node("new", gpus=4)))
        second = await events.next()

    assert [len(one["data"]["nodes"]) for one in (first, second)] == [4, 5]


async def test_an_unchanged_page_is_not_sent_again(browser: Browser) -> None:
    feed = browser.world.feed
    async with browser.listening("page=waiting") as events:
        await events.next()
        computed = feed.computed
        async with asyncio.timeout(PATIENCE_S):
            while feed.computed < computed + 3:
                # A change that this page does not show.
                browser.world.stage.see(ev.NodeUpdated(node("other", cpu=str(feed.computed + 1))))
                await asyncio.sleep(0.001)
        browser.world.stage.see(ev.PodUpdated(pod("late", gpus=64)))
        names = [one["pod"] for one in (await events.next())["data"]["pods"]]

    assert "late" in names


async def test_one_computation_serves_all_listeners(browser: Browser) -> None:
    async with browser.listening("page=teams") as one, browser.listening("page=teams") as two:
        first, second = await one.next(), await two.next()

    assert first == second


async def test_without_listeners_nothing_is_computed(browser: Browser) -> None:
    feed = browser.world.feed
    async with browser.listening("page=nodes") as events:
        await events.next()
    async with asyncio.timeout(PATIENCE_S):
        while feed.listeners.open:
            browser.world.stage.see(ev.NodeUpdated(node("wake", gpus=1)))
            await asyncio.sleep(0.001)
    computed = feed.computed
    for _ in range(50):
        browser.world.stage.see(ev.NodeUpdated(node("more", gpus=2)))
        await asyncio.sleep(0)

    assert feed.computed == computed


async def test_a_silent_stream_gets_comments(folder: Path) -> None:
    async with (
        browsing(folder, heartbeat_s=0.01) as browser,
        browser.listening("page=teams") as events,
    ):
        blocks = [await events.block() for _ in range(4)]

    assert blocks[0] == ["retry: 2000"]
    assert [": keep-alive"] in blocks[2:]


async def test_too_many_listeners_are_refused(folder: Path) -> None:
    async with (
        browsing(folder, listeners_max=2) as browser,
        browser.listening("page=teams"),
        browser.listening("page=nodes") as second,
    ):
        await second.next()
        response, body = await browser.get("/dashboard/events?page=nodes")

    assert response.status == 503
    assert msgspec.json.decode(body)["message"] == "2 pages are open already; close one"


async def test_a_page_that_fails_does_not_end_the_others(browser: Browser) -> None:
    world = browser.world
    world.watches.append(None)  # type: ignore[arg-type] # the health page reads it and fails
    async with browser.listening("page=health"), browser.listening("page=nodes") as events:
        assert (await events.next())["state"] == "ok"
