"""``python -m tests.dashboard.pictures``: writes docs/images/dashboard-*.png.

The pictures are of the real pages on the example cluster of 40 nodes, after a day of history.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import structlog

from tests.dashboard.example_cluster import DAY_H, arrivals
from tests.dashboard.png import smaller
from tests.dashboard.product import NOW, Product
from tools.browser import Scheme, chromium, tab
from tools.sizes import ROOT

FOLDER: Final = ROOT / "docs" / "images"
STEP_H: Final = DAY_H / 288
SIZE: Final = (1280, 860)
BYTES_MAX: Final = 150_000
PICTURES: Final[tuple[tuple[str, str, Scheme], ...]] = (
    ("overview", "overview", "light"),
    ("overview-dark", "overview", "dark"),
    ("nodes", "nodes?node=h100-13", "light"),
    ("waiting", "waiting", "light"),
    ("pod", "pods/team-nlp/llama-next-0", "light"),
    ("teams", "teams", "light"),
    ("health", "health", "light"),
)


async def shoot() -> dict[str, bytes]:
    """Every picture as the browser writes it."""
    shots: dict[str, bytes] = {}
    product = Product(age_h=DAY_H)
    async with product.running(), chromium() as browser:
        await product.play(arrivals(NOW), DAY_H, STEP_H)
        for name, address, scheme in PICTURES:
            async with tab(browser, product.url, scheme=scheme, size=SIZE) as one:
                await one.page.clock.set_fixed_time(product.wall())
                page = await one.open(address)
                await one.check()
                await page.evaluate("document.fonts.ready")
                shots[name] = await page.screenshot(animations="disabled")
    return shots


def main() -> None:
    """Write the pictures of the documentation."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, shot in asyncio.run(shoot()).items():
        png = smaller(shot)
        assert len(png) < BYTES_MAX, f"{name}: {len(png)} bytes"
        (FOLDER / f"dashboard-{name}.png").write_bytes(png)


if __name__ == "__main__":
    main()
