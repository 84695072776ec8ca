"""``python -m tests.http.httpserver.healthprocess PORT``: the pages of port 8080, in a process.

It may open 256 files and no more, a quarter of what systemd lets a service open.
"""

from __future__ import annotations

import asyncio
import resource
import sys

from scheduler.report.health import application, serving
from scheduler.report.metrics import Metrics
from tests.http.test_health import idle_capacity


async def main(port: str) -> None:
    """Serve until the process is ended."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    metrics = Metrics("gpu-scheduler")
    app = application("gpu-scheduler", metrics, lambda: True, lambda: None, idle_capacity())
    async with serving(app, f"127.0.0.1:{port}", metrics):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
