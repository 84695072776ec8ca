"""``python -m tests.dashboard.pictures``: writes docs/images/dashboard-*.png.

The pictures are of the real pages on the example cluster of 40 nodes, after a day of history.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Final

import structlog

from tests.dashboard.browser import Scheme, chromium, tab
from tests.dashboard.example_cluster import DAY_H, arrivals
from tests.dashboard.product import NOW, Product
from tools.sizes import ROOT

FOLDER: Final = ROOT / "docs" / "images"
STEP_H: Final = DAY_H / 288
SIZE: Final = (1280, 800)
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


async def write(folder: Path) -> None:
    """Write every picture."""
    folder.mkdir(parents=True, exist_ok=True)
    product = Product(age_h=DAY_H)
    async with product.running(), chromium() as browser:
        await product.play(arrivals(NOW), DAY_H, STEP_H)
        for name, address, scheme in PICTURES:
            async with tab(browser, product.url, scheme=scheme, size=SIZE) as one:
                await one.page.clock.set_fixed_time(product.wall())
                page = await one.open(address)
                await one.check()
                await page.evaluate("document.fonts.ready")
                png = await page.screenshot(animations="disabled")
                assert len(png) < BYTES_MAX, f"{name}: {len(png)} bytes"
                (folder / f"dashboard-{name}.png").write_bytes(png)
                print(f"dashboard-{name}.png {len(png):,} bytes", file=sys.stderr)


def main() -> None:
    """Write the pictures of the documentation."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(write(FOLDER))


if __name__ == "__main__":
    main()
