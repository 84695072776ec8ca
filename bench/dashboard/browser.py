"""The browser's part of the dashboard's figures: first paint, first data, and changes.

Times are taken in the page itself: a script that runs before the page's own records the frame after
the data appeared, and the frame after a node's square changed.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from aiohttp import web
from playwright.async_api import Browser, Page

from bench.dashboard.server import World, dashboard
from scheduler.report.dashboard.service import Dashboard
from scheduler.report.decisions.guard import guarded
from scheduler.report.decisions.service import serve
from tools.browser import Tab, chromium, tab
from tools.controlplane.ports import LOOPBACK

PAGES: Final = ("overview", "nodes", "waiting", "teams", "health")
RECORD: Final = """
globalThis.times = { received: 0 };
const listen = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (kind, handler) {
  listen.call(this, kind, (event) => { times.received = performance.now(); handler(event); });
};
globalThis.painted = (found) => new Promise((resolve) => {
  const look = () => {
    if (!found()) return requestAnimationFrame(look);
    requestAnimationFrame(() => resolve({
      at: performance.now(), wall: Date.now(), received: times.received,
    }));
  };
  look();
});
"""
HAS_DATA: Final = "painted(() => document.querySelector('main .answer'))"
FIRST_PAINT: Final = """
performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null
"""

Figures = dict[str, float]


@asynccontextmanager
async def served(one: Dashboard) -> AsyncIterator[str]:
    """The dashboard behind its guard, on a loopback port; yields its URL."""
    app = web.Application(middlewares=[guarded])
    one.add_to(app)
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        address = f"{LOOPBACK}:{probe.getsockname()[1]}"
    works = [work for _, work in one.tasks()]
    tasks = [asyncio.create_task(work) for work in (*works, serve(app, address))]
    try:
        yield f"http://{address}/dashboard"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _recorded(browser: Browser, url: str) -> AsyncIterator[Tab]:
    async with tab(browser, url) as one:
        await one.page.add_init_script(RECORD)
        yield one


async def _opened(browser: Browser, url: str, page: str) -> Figures:
    """One page in a profile without a cache."""
    async with _recorded(browser, url) as one:
        await one.page.goto(f"{url}/{page}", wait_until="commit")
        shown: dict[str, float] = await one.page.evaluate(HAS_DATA)
        paint = await one.page.evaluate(FIRST_PAINT)
        return {
            "first_paint_ms": paint if paint is not None else shown["at"],
            "data_ms": shown["at"],
            "draw_ms": shown["at"] - shown["received"],
        }


async def _changed(page: Page, node: str, change: Callable[[bool], None], *, on: bool) -> Figures:
    """Change a node, and wait for its frame: the whole time, and that since the data came."""
    wanted = "" if on else "!"
    found = f"painted(() => {wanted}document.querySelector('.state-cordoned [data-node={node}]'))"
    waiting = asyncio.create_task(page.evaluate(found))
    await asyncio.sleep(0)
    started = time.time()  # noqa: TID251 - the browser's clock is the wall clock
    change(on)
    shown = await waiting
    return {
        "change_ms": shown["wall"] - started * 1e3,
        "redraw_ms": shown["at"] - shown["received"],
    }


def _medians(figures: list[Figures]) -> Figures:
    return {name: round(statistics.median(one[name] for one in figures), 1) for name in figures[0]}


async def _figures(world: World, rounds: int) -> dict[str, Any]:
    node_info = next(one for one in world.cluster.candidates() if one.node is not None)
    node = node_info.node
    assert node is not None, "a candidate has a node"

    def cordon(on: bool) -> None:
        world.cluster.upsert_node(msgspec.structs.replace(node, unschedulable=on))

    async with served(dashboard(world)) as url, chromium() as browser:
        await _opened(browser, url, "overview")
        found: dict[str, Any] = {
            page: _medians([await _opened(browser, url, page) for _ in range(rounds)])
            for page in PAGES
        }
        async with _recorded(browser, url) as one:
            page = await one.open("nodes")
            changes = [
                await _changed(page, node.name, cordon, on=number % 2 == 0)
                for number in range(rounds)
            ]
        return {"pages": found, "changes": _medians(changes)}


def browser_part(nodes: int, waiting: int, rounds: int) -> dict[str, Any]:
    """Measure, print a table, and return the figures; the changed node is cordoned and back."""
    world = World(nodes, waiting)
    gc.freeze()
    found = asyncio.run(_figures(world, rounds))
    for page, one in found["pages"].items():
        print(
            f"{page:9} first paint {one['first_paint_ms']:7.1f} ms   data {one['data_ms']:7.1f} ms"
            f"   drawn in {one['draw_ms']:7.1f} ms"
        )
    changes = found["changes"]
    print(f"a change  {changes['change_ms']:.1f} ms   redrawn in {changes['redraw_ms']:.1f} ms")
    return found
