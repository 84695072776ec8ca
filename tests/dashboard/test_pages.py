"""Each page answers its question with the data of the real server."""

from __future__ import annotations

import re

from playwright.async_api import expect

from tests.dashboard.conftest import OpenTab


async def test_overview_says_whether_there_is_room_and_why_not(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("overview")

        answer = page.locator(".answer")
        await expect(answer).to_contain_text("There is room: 47 GPUs free")
        await expect(answer).to_contain_text("the largest block is 8 GPUs on h200-03")
        await expect(page.locator(".why")).to_contain_text("9 pods wait for 50 GPUs")
        room = page.get_by_role("table", name="Room by model")
        row = room.get_by_role("row").filter(has_text="H200 140G")
        await expect(row.get_by_role("cell")).to_have_text(
            [re.compile("20 free of 32"), "2", "4", "10", "20", "8 GPUs on h200-03"]
        )
        reasons = page.get_by_role("region", name="Why pods wait").get_by_role("listitem")
        await expect(reasons).to_have_count(3)
        await expect(reasons.first).to_contain_text("INSUFFICIENT")
        await expect(
            page.get_by_role("img", name=re.compile("^GPUs in the last 24"))
        ).to_be_visible()


async def test_nodes_show_the_pod_on_each_gpu(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("nodes")

        await expect(page.locator(".answer")).to_contain_text("47 GPUs free, up to 8 on one node")
        cards = page.locator("a[data-node]")
        await expect(cards).to_have_count(40)
        card = page.get_by_role("link", name=re.compile("^h100-13;"))
        await expect(card.locator(".sq")).to_have_text(["B", "B", *"CCCCC", ""])
        await card.click()
        detail = page.get_by_role("complementary", name="h100-13")
        await expect(detail.get_by_role("row", name=re.compile("^2 "))).to_contain_text(
            "speech/asr-0"
        )
        await expect(detail.get_by_role("row", name="7 free")).to_be_visible()
        await expect(detail).to_contain_text("H100 80G, 79.6Gi of memory")


async def test_failed_gpus_have_a_hatch_and_a_sign(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("nodes?state=failed")

        await expect(page.locator("a[data-node]")).to_have_count(2)
        square = page.locator("a[data-node=h100-11] .is-failed")
        await expect(square).to_have_text("\u00d7")
        image = await square.evaluate("one => getComputedStyle(one).backgroundImage")
        assert "repeating-linear-gradient" in image


async def test_slices_are_drawn_at_their_place(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("nodes?q=a100-dyn-01&node=a100-dyn-01")

        first = page.locator("a[data-node=a100-dyn-01] .is-cut").nth(1)
        await expect(first.locator(".piece")).to_have_count(3)
        detail = page.get_by_role("complementary", name="a100-dyn-01")
        await expect(detail).to_contain_text("research/fine-tune-1")


async def test_waiting_pods_are_in_the_order_of_the_queue(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("waiting")

        await expect(page.locator(".answer")).to_contain_text(
            re.compile(r"First of 9: team-nlp/llama-next-\d waits .* for 8 GPUs")
        )
        rows = page.get_by_role("table").get_by_role("row")
        await expect(rows).to_have_count(10)
        await expect(rows.nth(1)).to_contain_text("36 Insufficient nvidia.com/gpu (need 8")
        await expect(rows.nth(1)).to_contain_text("request less")
        await page.get_by_role("button", name="By owner").click()
        owner = page.get_by_role("row").filter(has_text="Job/llama-next")
        await expect(owner).to_contain_text("INSUFFICIENT (4)")


async def test_pod_page_explains_and_copies_a_command(opened: OpenTab) -> None:
    async with opened(permissions=["clipboard-read", "clipboard-write"]) as tab:
        page = await tab.open("waiting")
        await page.get_by_role("link", name=re.compile("llama-next-0")).first.click()

        await expect(page.get_by_role("heading", level=1)).to_have_text("team-nlp/llama-next-0")
        await expect(page.locator(".answer")).to_contain_text("CAN start later")
        await expect(page.locator(".is-help")).to_contain_text("tolerate gpu=reserved:NoSchedule")
        answers = page.get_by_role("table", name="Answer of each node").get_by_role("row")
        await expect(answers.filter(has_text="h100-16")).to_contain_text("unschedulable")
        await page.get_by_role("button", name=re.compile("^Copy: gpuctl why")).click()
        await expect(page.get_by_role("button", name=re.compile("gpuctl why"))).to_have_text(
            "copied"
        )
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied == "gpuctl why -n team-nlp llama-next-0"


async def test_placed_pod_shows_its_node_devices_and_timeline(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("pods/research/notebook-0")

        await expect(page.locator(".answer")).to_contain_text("Runs on l40s-01")
        await expect(page.get_by_role("region", name="What it was given")).to_contain_text(
            "gpu:2,3"
        )
        timeline = page.get_by_role("region", name="Timeline").get_by_role("listitem")
        await expect(timeline.first).to_contain_text("created")
        await expect(timeline.filter(has_text="node chosen")).to_have_count(1)


async def test_teams_show_held_guaranteed_waiting_and_degraded(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("teams")

        await expect(page.locator(".answer")).to_contain_text("team-nlp holds most: 60 GPUs")
        row = page.get_by_role("row").filter(has_text="team-nlp")
        await expect(row).to_contain_text("60 of 64 GPUs")
        await expect(row.get_by_role("link", name="4 pods")).to_be_visible()
        await expect(page.get_by_role("row").filter(has_text="speech")).to_contain_text("3 pods")
        async with page.expect_download() as download:
            await page.get_by_role("button", name="Download as CSV").click()
        path = await (await download.value).path()
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("namespace,pods,held,guaranteed")
        assert any(line.startswith("team-nlp,11,") for line in lines)


async def test_teams_show_the_cost_per_hour(opened: OpenTab) -> None:
    """Two H100 for 2.40, an L40S for 1.10, and six of seven slices of A100 40G for 1.30."""
    async with opened() as tab:
        page = await tab.open("teams")

        row = page.get_by_role("row").filter(has_text="platform")
        await expect(row).to_contain_text("3")
        await expect(row).to_contain_text("7.01 EUR")


async def test_health_shows_leader_version_latency_and_checks(opened: OpenTab) -> None:
    async with opened() as tab:
        page = await tab.open("health")

        # A slow machine adds a warning about the time of decisions.
        await expect(page.locator(".answer")).to_contain_text("It works, with")
        await expect(page.locator(".why")).to_contain_text("9 pods wait")
        checks = page.get_by_role("table", name="Checks of the scheduler")
        await expect(checks.get_by_role("row").filter(has_text="watches")).to_contain_text("ok")
        await expect(page.get_by_role("region", name="Leader")).to_contain_text("Python 3.")
        await expect(page.locator(".figures")).to_contain_text("epoch 218")
