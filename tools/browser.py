"""Debian's chromium, driven by Playwright: a page that collects its errors."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from tools.controlplane.client import PATIENCE_S

#: Names of the program; a browser is never downloaded.
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
MISSING: Final = (
    "the tests of the dashboard need chromium in PATH:"
    " apt-get install --no-install-recommends chromium"
)
WIDE: Final = (1440, 900)
NARROW: Final = (360, 740)
#: Records what the Content-Security-Policy blocked.
WATCH_POLICY: Final = """
globalThis.blocked = [];
addEventListener("securitypolicyviolation", (event) => {
  blocked.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}`);
});
"""

Scheme = Literal["light", "dark"]


def program() -> str:
    """The path of chromium; a missing browser fails the test."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert found is not None, MISSING
    return found


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The browser, for all tests of a run."""
    expect.set_options(timeout=PATIENCE_S * 1000)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=program(),
            args=[
                "--disable-lcd-text"
            ],  # grey edges: pictures are smaller, and the same everywhere
        )
        try:
            yield browser
        finally:
            await browser.close()


class Tab:
    """One page of the browser, and what it reported as an error."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(f"error: {error}"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    async def open(self, address: str) -> Page:
        """Go to a page and wait until it has its data."""
        await self.page.goto(f"{self.url}/{address}")
        await self.page.locator("main :is(.answer, .notice:not([aria-busy=true]))").first.wait_for()
        return self.page

    async def check(self) -> None:
        """No script failed, and the Content-Security-Policy blocked nothing."""
        blocked: list[str] = await self.page.evaluate("globalThis.blocked ?? []")
        wrong = self.errors + blocked
        assert not wrong, wrong


@asynccontextmanager
async def tab(
    browser: Browser,
    url: str,
    *,
    scheme: Scheme = "light",
    size: tuple[int, int] = WIDE,
    **options: Any,
) -> AsyncIterator[Tab]:
    """A page in a profile of its own."""
    width, height = size
    context = await browser.new_context(
        color_scheme=scheme,
        viewport={"width": width, "height": height},
        timezone_id="UTC",
        locale="en-GB",
        reduced_motion="reduce",
        **options,
    )
    context.set_default_timeout(PATIENCE_S * 1000)
    await context.add_init_script(WATCH_POLICY)
    try:
        yield Tab(await context.new_page(), url)
    finally:
        await context.close()
