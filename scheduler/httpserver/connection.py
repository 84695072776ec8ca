"""One connection: the stage of its request, and the deadline of the stage.

It is between asyncio and aiohttp's protocol, because aiohttp has only one time limit (the
keep-alive timeout, an hour by default) and accepts heads of 1 MiB.

::

    WAITING --first byte--> SHAKING --handshake--> IDLE --first byte--> HEAD --its end--> ASKED
       IDLE <--answer-- ANSWERING <--whole body-- BODY <--the handler reads--'

LEAVING: the last response was sent, and the rest of the body may still arrive. REFUSED: this class
sent the response, without aiohttp.

Must never: parse a request. It looks for the end of a head; aiohttp's parser reads the content, and
rejects ambiguous requests.
"""

from __future__ import annotations

import asyncio
import enum
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from scheduler.httpserver.connection_metrics import Dropped
from scheduler.httpserver.limits import HEAD_MAX, Limits

_NEVER: Final = float("inf")
_END: Final = b"\r\n\r\n"
#: Every method begins with one.
_LETTERS: Final = range(ord("A"), ord("Z") + 1)


class Stage(enum.Enum):
    """The stage of a connection."""

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
        """The connection closed."""

    def dropped(self, reason: Dropped) -> None:
        """A limit ended the connection."""


def _common_name(certificate: Mapping[str, Any]) -> str:
    """The common name of a certificate's subject, as ``getpeercert`` returns it."""
    names = (pair for part in certificate.get("subject", ()) for pair in part)
    return next((value for name, value in names if name == "commonName"), "")


class Connection(asyncio.Protocol):
    """One connection of a listener; ``inner`` creates its aiohttp protocol."""

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
        #: The common name of that certificate.
        self.client_name = ""
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._head_size = 0
        self._tail = b""
        self._has_spoken = False
        self.wait(Stage.WAITING, self._limits.handshake_s)

    @property
    def due(self) -> float:
        """The deadline of the stage, on the event loop's clock."""
        return min(self._stage_due, self._unread_due)

    @property
    def can_be_dropped(self) -> bool:
        """False while its request is being answered: a drop would lose a review."""
        return self.stage is not Stage.ANSWERING

    def wait(self, stage: Stage, seconds: float = _NEVER) -> None:
        """Enter a stage with this deadline in seconds."""
        self.stage = stage
        self._stage_due = self._loop.time() + seconds

    # --- calls of asyncio --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open; with TLS the handshake has ended."""
        self._transport = cast(asyncio.Transport, transport)
        certificate = transport.get_extra_info("peercert") or {}
        self.is_known = bool(certificate)
        self.client_name = _common_name(certificate)
        self.wait(Stage.IDLE)  # aiohttp ends idle connections, after its keep-alive timeout
        self._inner = self._make_inner()
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client or a limit closed the connection."""
        self._transport = None
        self._owner.closed(self)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count and forward bytes; a head has to end within its limits."""
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
        """The client sends no more data."""
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        """The client does not read its response."""
        assert self._inner is not None, "an answer was written"
        self._unread_due = self._loop.time() + self._limits.unread_s
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The client reads its response again."""
        assert self._inner is not None, "an answer was written"
        self._unread_due = _NEVER
        self._inner.resume_writing()

    # --- calls of the server -----------------------------------------------------------------

    def reading(self) -> None:
        """The head was accepted, and the reader sets the deadline of the body."""
        self.wait(Stage.BODY)

    def answering(self) -> None:
        """The request is complete."""
        self.wait(Stage.ANSWERING)

    def answered(self, status: int, *, is_whole: bool = True) -> None:
        """The response is written next; after an incomplete request the connection ends."""
        if status < HTTPStatus.BAD_REQUEST:
            self._owner.proved(self)
        if is_whole:
            self.wait(Stage.IDLE)
        else:
            self.wait(Stage.LEAVING, self._limits.linger_s + self._limits.farewell_s)
        if self._transport is not None:
            self._transport.resume_reading()

    def go_on(self) -> None:
        """Send ``100 Continue`` (``Expect: 100-continue``)."""
        if self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # --- limits ------------------------------------------------------------------------------

    def expire(self) -> None:
        """The deadline of the stage passed."""
        is_unread = self._unread_due <= self._stage_due
        reason = "unread" if is_unread else _TOO_SLOW.get(self.stage)
        if reason is not None:
            self._owner.dropped(reason)
        if self.stage is Stage.HEAD and not is_unread:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.drop()

    def drop(self) -> None:
        """Close the connection at once, in any stage."""
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
        """The handshake ended; if it failed, no transport owns the socket."""
        if self._transport is None:
            self.socket.close()
            self._owner.closed(self)

    def _is_head_short(self, data: bytes) -> bool:
        """Count a head's bytes; returns whether they are within the limit."""
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
        """Respond with one line; further data of the client is discarded."""
        assert self._transport is not None, "bytes come after the connection was made"
        self.wait(Stage.REFUSED, self._limits.linger_s)
        text = status.phrase.encode()
        self._transport.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b\n" % (status, text, len(text) + 1, text)
        )
