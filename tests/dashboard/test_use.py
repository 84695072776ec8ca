"""What holds on every page: links, keyboard, live changes, colours, widths, and missing data."""

from __future__ import annotations

import re

import msgspec
from playwright.async_api import Page, expect

from scheduler.state import event as ev
from tests.builders import pod
from tests.dashboard.conftest import OpenTab
from tests.dashboard.example_cluster import nodes
from tests.dashboard.product import OTHER, Product
from tools.browser import NARROW

ADDRESSES = (
    *("overview", "nodes?node=h100-13", "nodes?view=table", "waiting", "waiting?by=reason"),
    *("pods/team-nlp/llama-next-0", "teams", "health"),
)
WIDTH = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def background(page: Page) -> str:
    colour: str = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


async def test_shared_address_shows_the_same_view(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("nodes")
        await page.get_by_label("Model").select_option("H100 80G")
        await page.get_by_role("combobox", name="Namespace").select_option("research")
        await page.get_by_role("link", name=re.compile("^h100-12;")).click()
        address = page.url.removeprefix(f"{tab.url}/")

        async with opened() as other:
            shared = await other.open(address)

            await expect(shared.locator("a[data-node]")).to_have_count(3)
            await expect(shared.get_by_label("Model")).to_have_value("H100 80G")
            await expect(shared.get_by_role("complementary", name="h100-12")).to_be_visible()

        await page.go_back()
        await expect(page.get_by_role("complementary")).to_have_count(0)


async def test_keyboard_reaches_pages_nodes_and_details(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("overview")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        await page.get_by_role("link", name="Nodes", exact=True).focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1, name="Nodes")).to_be_focused()

        first = page.locator("a[data-node][tabindex='0']")
        await expect(first).to_have_count(1)
        await first.focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.locator("a[data-node=a100-02]")).to_be_focused()
        await page.keyboard.press("ArrowDown")
        assert await page.evaluate("document.activeElement.dataset.node") != "a100-02"
        await page.keyboard.press("End")
        last = page.locator("a[data-node=l40s-06]")
        await expect(last).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("complementary", name="l40s-06")).to_be_visible()


async def test_change_of_the_cluster_appears_without_a_reload(
    opened: OpenTab, product: Product
) -> None:
    async with opened() as tab:
        page = await tab.open("waiting")
        await expect(page.locator(".connection")).to_have_text("live")
        await page.evaluate("globalThis.isSame = true")
        rows = page.get_by_role("row").filter(has_text="newcomer")
        await expect(rows).to_have_count(0)

        newcomer = pod("newcomer", namespace="research", gpus=8)
        product.see(ev.PodUpdated(newcomer))
        await expect(rows).to_have_count(1)
        product.see(ev.PodDeleted(newcomer.uid))
        await expect(rows).to_have_count(0)

        assert await page.evaluate("globalThis.isSame")


async def test_colours_follow_the_system_or_the_stored_choice(opened: OpenTab) -> None:
    async with opened(scheme="light") as tab:
        page = await tab.open("overview")
        light = await background(page)
        await page.get_by_label("Colours").select_option("Dark")
        dark = await background(page)
        assert light != dark

        await page.reload()
        await page.locator(".answer").wait_for()
        assert await background(page) == dark
        await page.get_by_label("Colours").select_option("System")
        assert await background(page) == light
    async with opened(scheme="dark") as tab:
        assert await background(await tab.open("overview")) == dark


async def test_narrow_pages_do_not_scroll_sideways(opened: OpenTab) -> None:
    async with opened(size=NARROW) as tab:
        for address in ADDRESSES:
            page = await tab.open(address)

            assert (address, await page.evaluate(WIDTH)) == (address, 0)
            await expect(page.locator("nav a").last).to_be_in_viewport()


async def test_lost_connection_is_told_and_ends(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("overview")
        await page.context.set_offline(True)
        await page.route("**/dashboard/events*", lambda route: route.abort())
        await page.get_by_role("link", name="Teams", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("Connection lost")
        await page.context.set_offline(False)
        await page.unroute("**/dashboard/events*")

        await page.reload()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(page.locator(".connection")).to_have_text("live")
        tab.errors.clear()  # the browser reports the requests that failed on purpose


async def test_follower_names_the_leader(opened: OpenTab) -> None:
    follower = Product()
    follower.election.is_leading = False
    async with follower.running(), opened(of=follower) as tab:
        page = await tab.open("nodes")

        notice = page.locator(".notice")
        await expect(notice).to_contain_text("This replica is not the leader")
        await expect(notice).to_contain_text(OTHER.partition("_")[0])


async def test_cluster_without_devices_has_a_line_on_each_page(opened: OpenTab) -> None:
    empty = Product()
    async with empty.running(), opened(of=empty) as tab:
        page = await tab.open("overview")
        await expect(page.locator(".answer")).to_have_text("There is no room: no node has GPUs.")
        for name, answer in (
            ("Nodes", "No node has GPUs or slices."),
            ("Waiting", "No pod waits."),
            ("Teams", "No namespace holds or requests a device."),
        ):
            await page.get_by_role("link", name=name, exact=True).click()
            await expect(page.locator(".answer")).to_have_text(answer)


async def test_unknown_pod_and_unknown_address_have_a_notice(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("pods/research/gone")
        await expect(page.locator(".notice")).to_contain_text("research/gone is unknown")
        page = await tab.open("nothing")
        await expect(page.locator(".notice")).to_contain_text("This address has no page")


async def test_thousand_nodes_are_shown_without_names(opened: OpenTab) -> None:
    large = Product()
    boards = [one for one in nodes() if one.name.startswith("h100")]
    async with large.running(), opened(of=large) as tab:
        for number in range(1000):
            board = boards[number % len(boards)]
            one = msgspec.structs.replace(board, name=f"node-{number:04}")
            large.see(ev.NodeUpdated(one))
        await large.settle()
        page = await tab.open("nodes")

        await expect(page.locator("a[data-node]")).to_have_count(1000)
        await expect(page.locator(".card-name")).to_have_count(0)
        await page.get_by_role("searchbox", name="Node").fill("node-000")
        await expect(page.locator(".card-name")).to_have_count(10)
