"""In front of every listener: accepted sockets are counted before they cost memory.

``create_server(ssl=...)`` allocates TLS buffers for each socket that connects, and cannot reject
one. Here a socket costs a file descriptor until its first byte; then TLS starts. Above the limit
another connection is dropped (``connection_limiter`` selects it).

Must never: log more than one line per interval, wait for a client, or stop accepting.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import structlog

from scheduler.httpserver.connection import Connection, Stage
from scheduler.httpserver.connection_limiter import ConnectionLimiter
from scheduler.httpserver.connection_metrics import ConnectionMetrics, Dropped
from scheduler.httpserver.limits import (
    ACCEPTED_AT_ONCE,
    NO_FILES_PAUSE_S,
    TLS_BUFFER,
    Limits,
)
from scheduler.httpserver.log_throttle import LogThrottle

log = structlog.get_logger("http")

_NO_FILES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_MAPPED: Final = "::ffff:"

#: One context, or what returns the context of the next connection: a context cannot forget an
#: authority that it trusts.
TlsContext = ssl.SSLContext | Callable[[], ssl.SSLContext]

# The class attribute is the only way to set the size; a test checks the memory of a connection.
sslproto.SSLProtocol.max_size = TLS_BUFFER


class Acceptor:
    """Accepts the connections of one listening socket."""

    def __init__(
        self,
        listener: socket.socket,
        inner: Callable[[], asyncio.Protocol],
        limits: Limits,
        tally: ConnectionMetrics,
        context: TlsContext | None = None,
    ) -> None:
        """``inner`` creates aiohttp's protocol for a connection; ``context`` enables TLS."""
        self.limits = limits
        self._listener = listener
        self._inner = inner
        self._tally = tally
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._crowd = ConnectionLimiter()
        self._seldom = LogThrottle()
        self._resume: asyncio.TimerHandle | None = None
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def start(self) -> None:
        """Start accepting."""
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def stop(self) -> None:
        """Close the listener, and every connection with an unfinished handshake; idempotent."""
        if self._listener.fileno() < 0:
            return
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for one in list(self._crowd):
            if one.stage in (Stage.WAITING, Stage.SHAKING):
                one.drop()

    async def end(self) -> None:
        """Let closing connections finish TLS, then abort the others."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.farewell_s):
                await self._is_empty.wait()
        for one in list(self._crowd):
            one.drop()

    async def sweep(self) -> None:
        """Drop overdue connections until cancelled."""
        while True:
            await asyncio.sleep(self.limits.sweep_s)
            now = self._loop.time()
            for one in [one for one in self._crowd if one.due <= now]:
                one.expire()

    # --- calls of connections (connection.Owner) ---------------------------------------------

    def proved(self, connection: Connection) -> None:
        """The connection moves to the end of the drop order."""
        self._crowd.proved(connection)

    def closed(self, connection: Connection) -> None:
        """The connection closed; some connections call this more than once."""
        self._crowd.remove(connection)
        self._tally.open(len(self._crowd))
        if not len(self._crowd):
            self._is_empty.set()

    def dropped(self, reason: Dropped) -> None:
        """Count a dropped connection."""
        self._tally.dropped(reason)

    # --- accepting ---------------------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._take(accepted, _address(peer))

    def _take(self, accepted: socket.socket, address: str) -> None:
        """Admit a socket, and drop another connection above the limit."""
        limits = self.limits
        if self._crowd.of(address) >= limits.per_address:
            if not self._make_room("address", limits.per_address, address):
                self._refuse(accepted, "address")
                return
        elif len(self._crowd) >= limits.connections and not self._make_room(
            "crowded", limits.connections
        ):
            self._refuse(accepted, "crowded")
            return
        accepted.setblocking(False)
        connection = Connection(self, accepted, address, self._inner)
        self._crowd.add(connection)
        self._is_empty.clear()
        self._tally.open(len(self._crowd))
        # A client that sends nothing gets neither buffers nor a handshake.
        self._loop.add_reader(accepted, self._first_byte, connection)

    def _make_room(self, reason: Dropped, limit: int, address: str | None = None) -> bool:
        """Drop one connection (of an address); returns whether there was one to drop."""
        victim = self._crowd.victim(limit, address)
        if victim is None:
            return False
        self._tally.dropped(reason)
        victim.drop()
        self.closed(victim)
        return True

    def _refuse(self, accepted: socket.socket, reason: Any) -> None:
        self._tally.refused(reason)
        accepted.close()

    def _pause(self, error: OSError) -> None:
        """Usually no file descriptor is left: free one, and retry after a pause."""
        if error.errno not in _NO_FILES or not self._make_room("files", 0):
            self._tally.refused("files")
        left_out = self._seldom.passes()
        if left_out is not None:
            log.warning(
                "connection not accepted",
                port=self._tally.port,
                problem=error.strerror,
                left_out=left_out,
            )
        self._loop.remove_reader(self._listener)
        self._resume = self._loop.call_later(NO_FILES_PAUSE_S, self.start)

    def _first_byte(self, connection: Connection) -> None:
        """The first byte arrived: start TLS, or hand the socket over."""
        self._loop.remove_reader(connection.socket)
        connection.wait(Stage.SHAKING, self.limits.handshake_s)
        work = self._hand_over(connection)
        connection.handshake = asyncio.create_task(work, name="handshake")
        connection.handshake.add_done_callback(connection.handed_over)

    async def _hand_over(self, connection: Connection) -> None:
        """From here on asyncio's transport owns the socket."""
        options: dict[str, Any] = {}
        if self._context is not None:
            options = {
                "ssl": self._context() if callable(self._context) else self._context,
                # The sweep comes first, and counts the drop.
                "ssl_handshake_timeout": self.limits.handshake_s + 2 * self.limits.sweep_s,
                "ssl_shutdown_timeout": self.limits.farewell_s,
            }
        with suppress(OSError):  # handshake failures, including TimeoutError and SSLError
            await self._loop.connect_accepted_socket(
                lambda: connection, connection.socket, **options
            )


def _address(peer: Any) -> str:
    """The client's address without its port; an IPv4 client of a dual-stack listener as IPv4."""
    if not isinstance(peer, tuple):
        return ""
    return str(peer[0]).removeprefix(_MAPPED)


@asynccontextmanager
async def accepting(
    listener: socket.socket,
    inner: Callable[[], asyncio.Protocol],
    limits: Limits,
    tally: ConnectionMetrics,
    context: TlsContext | None = None,
) -> AsyncIterator[Acceptor]:
    """Accept connections for the duration of the block.

    Connections that are open at the end belong to the block's owner.
    """
    acceptor = Acceptor(listener, inner, limits, tally, context)
    acceptor.start()
    sweeping = asyncio.create_task(acceptor.sweep(), name="sweep")
    try:
        yield acceptor
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
        acceptor.stop()
