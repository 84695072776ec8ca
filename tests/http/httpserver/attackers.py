"""Clients that mean harm: many silent connections, half requests, half bodies. Loopback only.

Every address of 127.0.0.0/8 is this machine's, so attackers need not share an honest client's.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from scheduler.httpserver import file_limit
from tests.patience import PATIENCE_S

ROOT: Final = Path(__file__).parents[3]
MIB: Final = 1024 * 1024
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def anything() -> ssl.SSLContext:
    """A client's side of TLS that trusts every server."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Flood:
    """Connections that are held open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.streams: list[Streams] = []

    async def open(
        self,
        count: int,
        source: Callable[[int], str],
        sent: bytes = b"",
        context: ssl.SSLContext | None = None,
    ) -> None:
        """So many more, each with these first bytes; fifty at a time."""
        at_once = asyncio.Semaphore(50)

        async def one(number: int) -> None:
            async with at_once:
                with contextlib.suppress(OSError):  # a refusal is what the victim may do
                    streams = await asyncio.open_connection(
                        "127.0.0.1", self._port, local_addr=(source(number), 0), ssl=context
                    )
                    self.streams.append(streams)
                    streams[1].write(sent)
                    await streams[1].drain()

        await asyncio.gather(*(one(number) for number in range(count)))

    def close(self) -> None:
        """Go."""
        for _, writer in self.streams:
            writer.transport.abort()
        self.streams.clear()


@asynccontextmanager
async def flood(port: int) -> AsyncIterator[Flood]:
    """A flood that ends with the block."""
    file_limit.raise_limit()
    made = Flood(port)
    try:
        yield made
    finally:
        made.close()


def memory_of(pid: int) -> int:
    """What a process holds of real memory, in bytes."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None, "a process has memory"
    return int(found[1]) * 1024


@asynccontextmanager
async def program(*words: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """One of our programs as a process of its own; what it says is in ``log``."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *words), cwd=ROOT, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def until_open(port: int) -> None:
    """A port that a program listens on."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.transport.abort()
                return
