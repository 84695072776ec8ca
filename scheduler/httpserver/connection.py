"""One connection: how far its request has come, and by when it must go on.

It stands between asyncio and aiohttp's protocol, because aiohttp has one limit in time only (the
keep-alive timeout, an hour by default) and accepts heads of 1 MiB.

::

    WAITING --first byte--> SHAKING --handshake--> IDLE --first byte--> HEAD --its end--> ASKED
       IDLE <--answer-- ANSWERING <--whole body-- BODY <--the handler reads--'

LEAVING is answered for the last time, with the rest of its body on the way; REFUSED was answered
here, and is not aiohttp's matter any more.

Must never: understand a request. It looks for the end of a head; aiohttp's parser decides what it
says, and refuses what two readers could understand in two ways.
"""

from __future__ import annotations

import asyncio
import enum
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol, cast

from scheduler.httpserver.connection_metrics import Dropped
from scheduler.httpserver.limits import HEAD_MAX, Limits

_NEVER: Final = float("inf")
_END: Final = b"\r\n\r\n"
#: Every method begins with one.
_LETTERS: Final = range(ord("A"), ord("Z") + 1)


class Stage(enum.Enum):
    """How far a connection has come."""

    WAITING = enum.auto()
    SHAKING = enum.auto()
    IDLE = enum.auto()
    HEAD = enum.auto()
    ASKED = enum.auto()
    BODY = enum.auto()
    ANSWERING = enum.auto()
    LEAVING = enum.auto()
    REFUSED = enum.auto()


_TOO_SLOW: Final[dict[Stage, Dropped]] = {
    Stage.WAITING: "handshake",
    Stage.SHAKING: "handshake",
    Stage.HEAD: "head",
    Stage.ASKED: "head",
    Stage.BODY: "body",
}


class Owner(Protocol):
    """The acceptor, as its connections know it."""

    limits: Limits

    def proved(self, connection: Connection) -> None:
        """One of its requests was answered with a status below 400."""

    def closed(self, connection: Connection) -> None:
        """It is over."""

    def dropped(self, reason: Dropped) -> None:
        """It was ended by a limit."""


class Connection(asyncio.Protocol):
    """One connection of a listener; ``inner`` makes aiohttp's part of it."""

    def __init__(
        self,
        owner: Owner,
        accepted: socket.socket,
        address: str,
        inner: Callable[[], asyncio.Protocol],
    ) -> None:
        self._owner = owner
        self._limits = owner.limits
        self._make_inner = inner
        self._loop = asyncio.get_running_loop()
        self.socket = accepted
        #: Of the client; "" on a Unix socket.
        self.address = address
        #: Between accepted socket and protocol: the handshake.
        self.handshake: asyncio.Task[None] | None = None
        self.stage = Stage.WAITING
        self._stage_due = self._unread_due = _NEVER
        #: Whether the client showed a certificate of the authority for clients.
        self.is_known = False
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._head_size = 0
        self._tail = b""
        self._has_spoken = False
        self.wait(Stage.WAITING, self._limits.handshake_s)

    @property
    def due(self) -> float:
        """When it is given up, on the event loop's clock."""
        return min(self._stage_due, self._unread_due)

    @property
    def can_be_dropped(self) -> bool:
        """Not while its request is being answered: that would lose a review."""
        return self.stage is not Stage.ANSWERING

    def wait(self, stage: Stage, seconds: float = _NEVER) -> None:
        """Enter a stage that must end within so many seconds."""
        self.stage = stage
        self._stage_due = self._loop.time() + seconds

    # --- what asyncio says -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """With TLS the handshake is over."""
        self._transport = cast(asyncio.Transport, transport)
        self.is_known = bool(transport.get_extra_info("peercert"))
        self.wait(Stage.IDLE)  # aiohttp ends idle connections, after its keep-alive timeout
        self._inner = self._make_inner()
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client or a limit ended it."""
        self._transport = None
        self._owner.closed(self)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """More bytes; a head has to end within its limits."""
        assert self._inner is not None, "bytes come after the connection was made"
        if self.stage is Stage.REFUSED:
            return
        if self.stage is Stage.IDLE:
            if not self._has_spoken and data[0] not in _LETTERS:
                self._refuse(HTTPStatus.BAD_REQUEST)
                return
            self._has_spoken = True
            self._head_size, self._tail = 0, b""
            self.wait(Stage.HEAD, self._limits.head_s)
        if self.stage is Stage.HEAD and not self._is_head_short(data):
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        self._inner.data_received(data)
        if self.stage is Stage.ANSWERING and self._transport is not None:
            self._transport.pause_reading()  # the next request waits in the kernel

    def eof_received(self) -> bool | None:
        """The client sends no more."""
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        """The client does not read its answer."""
        assert self._inner is not None, "an answer was written"
        self._unread_due = self._loop.time() + self._limits.unread_s
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        assert self._inner is not None, "an answer was written"
        self._unread_due = _NEVER
        self._inner.resume_writing()

    # --- what the server behind says ---------------------------------------------------------

    def reading(self) -> None:
        """The head was accepted; the body is being read. Its deadline is the reader's."""
        self.wait(Stage.BODY)

    def answering(self) -> None:
        """The request is whole."""
        self.wait(Stage.ANSWERING)

    def answered(self, status: int, *, is_whole: bool = True) -> None:
        """The answer is written next; after one to half a request the connection ends."""
        if status < HTTPStatus.BAD_REQUEST:
            self._owner.proved(self)
        if is_whole:
            self.wait(Stage.IDLE)
        else:
            self.wait(Stage.LEAVING, self._limits.linger_s + self._limits.farewell_s)
        if self._transport is not None:
            self._transport.resume_reading()

    def go_on(self) -> None:
        """Tell the client to send its body (``Expect: 100-continue``)."""
        if self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # --- what a limit says -------------------------------------------------------------------

    def expire(self) -> None:
        """Its time is over."""
        is_unread = self._unread_due <= self._stage_due
        reason = "unread" if is_unread else _TOO_SLOW.get(self.stage)
        if reason is not None:
            self._owner.dropped(reason)
        if self.stage is Stage.HEAD and not is_unread:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.drop()

    def drop(self) -> None:
        """End it at once, however far it has come."""
        if self._transport is not None:
            self._transport.abort()
            return
        if self.handshake is not None:
            self.handshake.cancel()
        else:
            self._loop.remove_reader(self.socket)
            self.socket.close()
        self._owner.closed(self)

    def handed_over(self, _: asyncio.Task[None]) -> None:
        """The handshake is over; where it failed, no transport owns the socket."""
        if self._transport is None:
            self.socket.close()
            self._owner.closed(self)

    def _is_head_short(self, data: bytes) -> bool:
        """Count a head's bytes; whether they are within the limit."""
        seen = self._tail + data
        end = seen.find(_END)
        if end >= 0:
            self._head_size += end - len(self._tail)
            self.wait(Stage.ASKED, self._limits.head_s)
        else:
            self._head_size += len(data)
            self._tail = seen[-len(_END) + 1 :]
        return self._head_size <= HEAD_MAX

    def _refuse(self, status: HTTPStatus) -> None:
        """Say why in one line; what the client still sends is discarded."""
        assert self._transport is not None, "bytes come after the connection was made"
        self.wait(Stage.REFUSED, self._limits.linger_s)
        text = status.phrase.encode()
        self._transport.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b\n" % (status, text, len(text) + 1, text)
        )
