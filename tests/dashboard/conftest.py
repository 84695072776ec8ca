"""One browser and one product for all tests: both run in the session's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.dashboard.example_cluster import arrivals
from tests.dashboard.product import NOW, Product
from tools.browser import Tab, chromium, tab

HERE = Path(__file__).parent
#: The history of the tests.
AGE_H = 6.0

OpenTab = Callable[..., AbstractAsyncContextManager[Tab]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def product() -> AsyncIterator[Product]:
    one = Product(age_h=AGE_H)
    async with one.running():
        await one.play(arrivals(NOW), AGE_H, step_h=0.25)
        yield one


@pytest.fixture
def opened(browser: Browser, product: Product) -> OpenTab:
    """Opens a tab whose clock has the cluster's time; at its end there are no errors."""

    @asynccontextmanager
    async def opening(of: Product = product, **options: Any) -> AsyncIterator[Tab]:
        async with tab(browser, of.url, **options) as one:
            await one.page.clock.set_fixed_time(of.wall())
            yield one
            await one.check()

    return opening
