"""axe-core finds no serious barrier on any page, in either colour scheme; texts need no colour."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.dashboard.conftest import OpenTab
from tests.dashboard.test_use import ADDRESSES
from tools.browser import NARROW

SERIOUS = {"serious", "critical"}
#: What the colour scheme can change.
COLOUR_RULES = ("color-contrast", "link-in-text-block")


async def barriers(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """The serious barriers; without rules those of every rule."""
    only = {"runOnly": {"type": "rule", "values": [*rules]}} if rules else {}
    found = await Axe().run(page, options={"resultTypes": ["violations"], **only})
    return [
        f"{one['id']}: {node['html'][:160]}"
        for one in found.response["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("address", ADDRESSES)
async def test_page_has_no_serious_barrier(opened: OpenTab, address: str) -> None:
    async with opened(scheme="light") as tab:
        page = await tab.open(address)
        assert await barriers(page) == []

        await page.emulate_media(color_scheme="dark")
        assert await barriers(page, COLOUR_RULES) == []


async def test_narrow_table_has_no_serious_barrier(opened: OpenTab) -> None:
    async with opened(size=NARROW) as tab:
        assert await barriers(await tab.open("waiting")) == []


async def test_headings_and_landmarks_name_the_parts(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("overview")

        await expect(page.get_by_role("heading", level=1)).to_have_count(1)
        for role in ("banner", "navigation", "main"):
            await expect(page.get_by_role(role)).to_have_count(1)
        current = page.get_by_role("navigation").locator("[aria-current=page]")
        await expect(current).to_have_text("Overview")
        await expect(page.get_by_role("status").first).to_have_text("live")
