"""The tasks of the decisions API: on, off, and without its port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from scheduler.config import Config, Maps
from scheduler.report.decisions.api_types import Leader
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.decisions.service import decision_tasks, serve
from scheduler.report.price_table import PriceTableReader
from scheduler.report.process import AnsweringProcess
from tests.dashboard_world import Election
from tests.patience import PATIENCE_S
from tests.unit.loop.loop_world import Stage

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
CONFIG = Config(maps=Maps(allow="all"))


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def tasks_of(config: Config, stage: Stage) -> Iterator[tuple[str, Any]]:
    """The tasks that explain the decisions of a stage."""
    term = Election()
    capacity = CapacityReport(stage.loop, term.leads, stage.clock, lambda: NOON)
    costs = CostReport(stage.loop, PriceTableReader(""), term.leads, lambda: NOON)
    process = AnsweringProcess(
        config=config,
        identity="host_0123456789",
        context=stage.loop,
        journal=stage.journal,
        leadership=term,
        metrics=stage.metrics,
        capacity=capacity,
        costs=costs,
        clock=stage.clock,
        wall=lambda: NOON,
        questions=QuestionQueue(),
    )
    return decision_tasks(process)


async def test_configuration_enables_the_api_parts(tmp_path: Any) -> None:
    stage = Stage()
    address = free_address()
    config = msgspec.structs.replace(CONFIG, decisions_address=address)
    config = msgspec.structs.replace(
        config, journal=msgspec.structs.replace(config.journal, path=str(tmp_path / "j"))
    )
    works = tasks_of(config, stage)
    tasks = [asyncio.create_task(work) for _, work in works]
    url = f"http://{address}/leader"
    async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with session.get(url) as response:
                    leader = msgspec.json.decode(await response.read(), type=Leader)
                    break
            await asyncio.sleep(0.001)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert (leader.identity, leader.epoch, leader.leads) == ("host_0123456789", 4, True)
    assert len(tasks) == 2


async def test_disabled_api_does_not_run() -> None:
    stage = Stage()
    config = msgspec.structs.replace(CONFIG, decisions_address="")

    assert list(tasks_of(config, stage)) == []


async def test_occupied_port_does_not_end_the_scheduler(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        serving = asyncio.create_task(serve(web.Application(), address))
        said = ""
        async with asyncio.timeout(PATIENCE_S):
            while "decisions API not available" not in said:
                await asyncio.sleep(0.001)
                captured = capfd.readouterr()
                said += captured.err + captured.out

        assert not serving.done()
        assert address in said
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
