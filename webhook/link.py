"""The way to the scheduler beside us: one question per pod, over a Unix socket.

The webhook knows nothing about free devices by itself. If the scheduler is silent, slow or
confused, the answer is None: nobody is degraded, maps keep their literal values, and the pod is
admitted. The budget leaves the API server's own limit of two seconds with room to spare.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
import structlog

from scheduler.model import admission
from scheduler.model.admission import Answer

BUDGET_S: Final = 1.0
ANSWER_BYTES_MAX: Final = 1024 * 1024
#: Connections to the scheduler, each with one question at a time; it accepts 256.
CONNECTIONS_MAX: Final = 200
_PLACE: Final = f"http://scheduler{admission.PATH}"
_ALIVE: Final = f"http://scheduler{admission.ALIVE_PATH}"
_HEADERS: Final = {"Content-Type": "application/json"}
#: Every question is built into a request for its own sake; these cost and nobody reads them.
_SKIPPED: Final = ("User-Agent", "Accept", "Accept-Encoding")
#: The budget is kept here, once for a whole question.
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
_AGAIN: Final = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_WARNING_INTERVAL_S: Final = 60.0
_SHOWN_MAX: Final = 200

_ANSWER: Final = msgspec.json.Decoder(Answer)
_log = structlog.get_logger(__name__)


class _TooLong(Exception):
    """An answer that is not read to its end."""


class Link:
    """Asks the scheduler that listens on a Unix socket."""

    def __init__(
        self,
        socket: Path,
        *,
        budget_s: float = BUDGET_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is opened yet: the scheduler may start later and end earlier than we."""
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None
        self._budget_s = budget_s
        self._now = now
        self._next_warning = -_WARNING_INTERVAL_S

    async def ask(self, question: admission.Question) -> Answer | None:
        """The scheduler's answer, or None where there is none in time."""
        try:
            async with asyncio.timeout(self._budget_s):
                return self._read(*await self._exchange(msgspec.json.encode(question)))
        except TimeoutError:
            self._warn(f"no answer within {self._budget_s:g} s")
        except (aiohttp.ClientError, OSError, _TooLong) as error:
            self._warn(str(error) or type(error).__name__)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._warn(f"an answer that cannot be read: {error}")
        return None

    async def say_alive(self) -> None:
        """Tell the scheduler that we serve; if it does not hear it, there is nothing to do."""
        with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with asyncio.timeout(self._budget_s), self._opened().get(_ALIVE):
                pass

    async def close(self) -> None:
        """Give the connections back."""
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, question: bytes) -> tuple[int, bytes]:
        try:
            return await self._post(question)
        except _AGAIN:
            # A connection that was kept from before the scheduler's restart. Should the question
            # have arrived all the same, a promise that meets no pod is over in ten seconds.
            return await self._post(question)

    async def _post(self, question: bytes) -> tuple[int, bytes]:
        async with self._opened().post(
            _PLACE, data=question, headers=_HEADERS, allow_redirects=False
        ) as response:
            content = response.content
            if content.is_eof():  # as nearly always: it came in one piece
                return response.status, content.read_nowait(-1)
            pieces = bytearray()
            async for piece in content.iter_any():
                pieces += piece
                if len(pieces) > ANSWER_BYTES_MAX:
                    raise _TooLong(f"an answer longer than {ANSWER_BYTES_MAX} bytes")
            return response.status, bytes(pieces)

    def _opened(self) -> aiohttp.ClientSession:
        """The session; made in the event loop that uses it."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(self._socket), limit=CONNECTIONS_MAX),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_NO_TIMEOUT,
                skip_auto_headers=_SKIPPED,
                auto_decompress=False,
            )
        return self._session

    def _read(self, status: int, body: bytes) -> Answer | None:
        if status != 200:
            self._warn(f"status {status}: {body[:_SHOWN_MAX].decode('utf-8', 'replace')}")
            return None
        return _ANSWER.decode(body)

    def _warn(self, problem: str) -> None:
        """At most once a minute: while the scheduler is away every pod ends up here."""
        if self._now() >= self._next_warning:
            self._next_warning = self._now() + _WARNING_INTERVAL_S
            _log.warning(
                f"The scheduler does not answer on {self._socket} ({problem}); "
                "pods are admitted without MIG fallback until it does"
            )
