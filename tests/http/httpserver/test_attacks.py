"""What any pod of the cluster can do to the ports of both programs, tried on real processes."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import pytest

from scheduler.model.admission import AdmissionDecision
from tests.http.httpserver.attackers import (
    MIB,
    anything,
    flood,
    memory_of,
    program,
    until_open,
)
from tests.http.httpserver.fuzz import Fuzzer
from tests.patience import PATIENCE_S, SLOW_MACHINE
from tests.unit.webhook.reviews import body
from tests.unit.webhook.scheduler import SchedulerEnd, says
from tests.unit.webhook.serving import BUNDLE, JSON, MAPPED, write
from tools.controlplane.ports import free_ports

Source = Callable[[int], str]
#: The chart's limit of the webhook's container.
LIMIT = 256 * MIB
HALF = (
    b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: 3145728\r\n\r\n" + b"x" * 3_000_000
)


class Victim:
    """A webhook in a process of its own, and a valid client with a new connection per request."""

    def __init__(self, port: int, pid: int, log: Path) -> None:
        self.port = port
        self.pid = pid
        self.log = log

    async def review(self) -> bool:
        """Whether a mapped pod gets its patch within the API server's two seconds.

        A slow machine has longer, but less than the limits after which silent clients are dropped.
        """
        timeout = aiohttp.ClientTimeout(total=2 * SLOW_MACHINE)
        connector = aiohttp.TCPConnector(ssl=anything(), force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            url = f"https://127.0.0.1:{self.port}/mutate"
            try:
                async with session.post(url, data=body(object=MAPPED), headers=JSON) as answer:
                    return "patch" in (await answer.json())["response"]
            except (aiohttp.ClientError, TimeoutError):
                return False

    async def reviews(self) -> list[bool]:
        """Five of them."""
        return [await self.review() for _ in range(5)]

    def memory(self) -> int:
        return memory_of(self.pid)


@pytest.fixture
async def victim() -> AsyncIterator[Victim]:
    with TemporaryDirectory(prefix="hook") as name:
        folder = Path(name)
        write(folder, BUNDLE)
        (port,) = free_ports(1)
        words = ("webhook", "--socket", f"{name}/s", "--cert-dir", name, "--port", str(port))
        async with (
            SchedulerEnd(folder / "s", says(AdmissionDecision())),
            program(*words, log=folder / "log") as process,
        ):
            await until_open(port)
            yield Victim(port, process.pid, folder / "log")


def one_address(_: int) -> str:
    return "127.0.0.2"


def our_address(_: int) -> str:
    """The honest client's: as if all came through one proxy."""
    return "127.0.0.1"


def many_addresses(number: int) -> str:
    return f"127.0.{2 + number // 250}.{1 + number % 250}"


@pytest.mark.parametrize(
    "source", [one_address, our_address, many_addresses], ids=["one", "ours", "many"]
)
async def test_silent_connections_cost_neither_memory_nor_reviews(
    victim: Victim, source: Source
) -> None:
    """1,500 that never begin a handshake."""
    async with flood(victim.port) as silent:
        await silent.open(1500, source)
        reviews, memory = await victim.reviews(), victim.memory()

    assert reviews == [True] * 5
    assert memory < LIMIT


async def test_connections_with_half_a_request_cost_no_review(victim: Victim) -> None:
    """1,020 with one byte each, behind a whole handshake, from the honest client's own address."""
    async with flood(victim.port) as half:
        await half.open(1020, our_address, b"P", anything())
        reviews, memory = await victim.reviews(), victim.memory()

    assert reviews == [True] * 5
    assert memory < LIMIT


async def test_half_bodies_use_bounded_memory(victim: Victim) -> None:
    """150 of three megabytes, of three addresses."""
    async with flood(victim.port) as half:
        before = victim.memory()
        await half.open(150, lambda number: f"127.0.0.{2 + number % 3}", HALF, anything())
        reviews, grown = await victim.reviews(), victim.memory() - before

    assert reviews == [True] * 5
    assert grown < 100 * MIB


async def test_probes_answer_beside_silent_clients(tmp_path: Path) -> None:
    """1,100 with one byte each, and a process that may open 256 files; no line in its log.

    The kubelet's probe waits for one second, and three in a row must fail: of five, the third
    quickest one is in time.
    """
    (port,) = free_ports(1)
    async with (
        program("tests.http.httpserver.healthprocess", str(port), log=tmp_path / "log"),
        flood(port) as silent,
    ):
        await until_open(port)
        await silent.open(1100, one_address, b"G")
        seconds = []
        for _ in range(5):
            started = time.monotonic()
            assert b"healthy" in await asyncio.to_thread(page, port)
            seconds.append(time.monotonic() - started)

    assert sorted(seconds)[2] < 1
    assert (tmp_path / "log").stat().st_size < 1000


def page(port: int) -> bytes:
    """``/health``, as the kubelet asks."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S) as answer:
        content: bytes = answer.read()
        return content


async def test_malformed_requests_are_log_throttled(tmp_path: Path) -> None:
    """One short line in ten seconds."""
    (port,) = free_ports(1)
    async with program("tests.http.httpserver.healthprocess", str(port), log=tmp_path / "log"):
        await until_open(port)
        for _ in range(200):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nX: \x01\r\n\r\n")
            await reader.read()
            writer.close()

    log = (tmp_path / "log").read_text()
    assert log.count("\n") <= 3
    assert len(log) < 1000


@pytest.mark.parametrize("seed", [7])
async def test_fuzzed_requests_are_answered_and_valid_pods_mutated(
    victim: Victim, seed: int
) -> None:
    """Twenty seconds of broken framing and broken reviews: never 500, and no growth."""
    fuzzers = [Fuzzer(victim.port, seed + number) for number in range(3)]
    await asyncio.gather(*(fuzzer.run(3) for fuzzer in fuzzers))
    before = victim.memory()
    work = [asyncio.create_task(fuzzer.run(17)) for fuzzer in fuzzers]
    reviews = []
    while not all(task.done() for task in work):
        reviews.append(await victim.review())
        await asyncio.sleep(0.5)
    await asyncio.gather(*work)
    statuses = {status for fuzzer in fuzzers for status in fuzzer.statuses}

    assert {status for status in statuses if not 400 <= status < 500} <= {100, 200}
    assert {200, 400} <= statuses
    assert sum(len(fuzzer.statuses) for fuzzer in fuzzers) > 0
    assert all(reviews)
    assert len(reviews) > 5
    assert victim.memory() - before < 8 * MIB
    assert "Traceback" not in victim.log.read_text()
