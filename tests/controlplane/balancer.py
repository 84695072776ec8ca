"""A Service for tests: one port, connections in turn to whichever of several servers listens.

TLS passes through untouched. It runs in a thread with an event loop of its own. While it
``swallows``, connections stay open, are taken, and nothing passes in either direction.
``black_hole`` is a port that drops every packet.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence

from tests.patience import PATIENCE_S
from tools.controlplane.ports import LOOPBACK, free_ports


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port that drops every packet: Linux answers no SYN for a socket whose queue is full."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind((LOOPBACK, 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        with contextlib.suppress(TimeoutError):
            while True:
                sockets.enter_context(socket.create_connection((LOOPBACK, port), timeout=0.2))
        yield port


class Balancer:
    """Passes connections on; ``passed`` counts them by the server's port."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.port = free_ports(1)[0]
        self.passed = dict.fromkeys(ports, 0)
        self.swallows = False
        self._turn = 0
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, name="balancer", daemon=True)

    def __enter__(self) -> Balancer:
        self._thread.start()
        assert self._listens.wait(PATIENCE_S), "the balancer does not listen"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        connections: set[asyncio.Task[None]] = set()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            try:
                await self._pass_on(reader, writer)
            except asyncio.CancelledError:
                return  # the balancer ends
            finally:
                connections.discard(task)
                writer.close()

        server = await asyncio.start_server(take, LOOPBACK, self.port, backlog=1024)
        self._listens.set()
        await self._stop.wait()
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside = await self._dial()
        if inside is None:
            return
        there, back = inside
        pumps = [
            asyncio.create_task(self._pump(reader, back)),
            asyncio.create_task(self._pump(there, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            back.close()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        passed = self.passed  # a test may replace it: other endpoints
        ports = list(passed)
        for _ in ports:
            self._turn += 1
            port = ports[self._turn % len(ports)]
            with contextlib.suppress(OSError):
                connection = await asyncio.open_connection(LOOPBACK, port)
                passed[port] += 1
                return connection
        return None

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                if not self.swallows:
                    writer.write(piece)
                    await writer.drain()
