"""A process lives as long as every one of its stages."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from scheduler.supervisor import TaskSupervisor


async def for_ever() -> None:
    await asyncio.Event().wait()


async def breaks() -> None:
    raise ValueError("broken")


async def test_signal_ends_the_supervisor_without_failure() -> None:
    stages, stop = TaskSupervisor(), asyncio.Event()
    stages.start("watch", for_ever())
    stop.set()

    assert await stages.until(stop) is False
    assert stages.are_alive()

    await stages.end()
    assert not stages.are_alive()


async def test_task_that_exits_is_named_and_fails_the_process() -> None:
    stages = TaskSupervisor()
    stages.start("watch", for_ever())
    stages.start("loop", breaks())

    with capture_logs() as lines:
        assert await stages.until(asyncio.Event()) is True

    assert [(line["event"], line["task"]) for line in lines] == [("background task exited", "loop")]
    assert isinstance(lines[0]["exc_info"], ValueError)
    assert not stages.are_alive()
    await stages.end()
