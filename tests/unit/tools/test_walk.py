"""The clock on which the trips of docs/architecture.md are counted."""

from __future__ import annotations

import asyncio

from tools.walk import IdleClockLoop

ROUNDS = 2_000


def test_timer_of_other_work_waits_until_nothing_is_ready() -> None:
    """However long the work takes, for example on a busy machine."""
    order: list[str] = []

    async def work() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(1e-6, order.append, "timer")
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        order.append("work")
        await asyncio.sleep(60.0)
        return loop.time()

    with asyncio.Runner(loop_factory=IdleClockLoop) as runner:
        assert runner.run(work()) >= 60.0
    assert order == ["work", "timer"]
