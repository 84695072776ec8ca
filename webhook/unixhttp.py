"""HTTP/1.1 over a Unix socket, as little of it as two programs in one pod need of each other.

A general client costs several times what the question itself costs, on the way of every pod.
Connections are kept. One that the other side closed meanwhile (it was restarted) is noticed, and
the request goes out again on a new one, as long as nothing was answered.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, NamedTuple, cast

ANSWER_BYTES_MAX: Final = 1024 * 1024
_HEAD_BYTES_MAX: Final = 16 * 1024
_IDLE_MAX: Final = 64
_HEAD_END: Final = b"\r\n\r\n"


class Response(NamedTuple):
    """A status and what came with it."""

    status: int
    body: bytes


class Confused(Exception):
    """An answer that is not HTTP as we agreed on it; the text is for the log."""


class _Closed(Exception):
    """The other side had closed a kept connection."""


class _Connection(asyncio.Protocol):
    """One connection; one exchange at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: asyncio.Future[Response] | None = None
        self._is_kept = False
        self.is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side is gone."""
        self.is_open = False
        if self._buffer:
            self._fail(ConnectionResetError("the answer was cut off"))
        elif self._is_kept:
            self._fail(_Closed())
        else:
            self._fail(ConnectionResetError("the connection was closed without an answer"))

    def data_received(self, data: bytes) -> None:
        """A piece of the answer."""
        if self._answer is None:
            self.close()  # nobody asked
            return
        self._buffer += data
        try:
            response = _take(self._buffer)
        except Confused as problem:
            self._fail(problem)
            self.close()
            return
        if response is not None and not self._answer.done():
            self._answer.set_result(response)

    def close(self) -> None:
        """Give it up."""
        self.is_open = False
        if self._transport is not None:
            self._transport.close()

    def send(self, request: bytes) -> None:
        """Begin an exchange."""
        self._answer = asyncio.get_running_loop().create_future()
        if self._transport is None or not self.is_open:
            self._fail(_Closed())
        else:
            self._transport.write(request)

    async def answer(self) -> Response:
        """Read the answer to what was sent, to its end."""
        assert self._answer is not None, "nothing was sent"
        response = await self._answer
        self._answer = None
        self._buffer.clear()
        self._is_kept = True
        return response

    def _fail(self, problem: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(problem)


class Exchange(NamedTuple):
    """A request, and the connection that it went out on already."""

    request: bytes
    connection: _Connection | None


class UnixHttp:
    """A client for one socket."""

    def __init__(self, socket: Path) -> None:
        """Nothing is opened yet: the other side may start later and end earlier than we."""
        self._socket = str(socket)
        self._idle: list[_Connection] = []

    def begin(self, method: str, path: str, body: bytes = b"") -> Exchange:
        """Send a request; where a connection is kept it is on its way when this returns."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: scheduler\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        request = head.encode("ascii") + body
        return Exchange(request, self._sent(request))

    async def end(self, exchange: Exchange) -> Response:
        """The answer; OSError where nobody answers, :class:`Confused` where it makes no sense."""
        connection = exchange.connection
        while True:
            if connection is None:
                connection = await self._connected()
                connection.send(exchange.request)
            try:
                response = await connection.answer()
            except _Closed:
                connection = self._sent(exchange.request)
                continue
            except BaseException:  # a timeout too: the answer may come when nobody waits for it
                connection.close()
                raise
            if connection.is_open and len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
            else:
                connection.close()
            return response

    async def request(self, method: str, path: str, body: bytes = b"") -> Response:
        """Both in one."""
        return await self.end(self.begin(method, path, body))

    def close(self) -> None:
        """Close every connection that is kept."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _sent(self, request: bytes) -> _Connection | None:
        """A kept connection that the request went out on; None where there is none."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                connection.send(request)
                return connection
        return None

    async def _connected(self) -> _Connection:
        loop = asyncio.get_running_loop()
        return (await loop.create_unix_connection(_Connection, self._socket))[1]


def _take(buffer: bytearray) -> Response | None:
    """The answer, once it is whole."""
    end = buffer.find(_HEAD_END)
    if end < 0:
        if len(buffer) > _HEAD_BYTES_MAX:
            raise Confused("its head is too long")
        return None
    status, length = _read_head(bytes(buffer[:end]))
    if length > ANSWER_BYTES_MAX:
        raise Confused(f"an answer longer than {ANSWER_BYTES_MAX} bytes")
    start = end + len(_HEAD_END)
    if len(buffer) < start + length:
        return None
    return Response(status, bytes(buffer[start : start + length]))


def _read_head(head: bytes) -> tuple[int, int]:
    """The status and the body's length."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not (rest[:3].isascii() and rest[:3].isdigit()):
        raise Confused("it does not speak HTTP")
    length = "0"
    for line in lines:
        name, _, value = line.partition(":")
        match name.strip().lower():
            case "transfer-encoding":
                raise Confused("an answer without a length")
            case "content-length":
                length = value.strip()
    if not (length.isascii() and length.isdigit()):
        raise Confused("an answer without a length")
    return int(rest[:3]), int(length)
