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

from scheduler.httpserver.messages import Reply
from scheduler.httpserver.post_request import AnswerTooLong, ask
from scheduler.model import admission
from scheduler.model.admission import AdmissionDecision

BUDGET_S: Final = 1.0
#: Connections to the scheduler, each with one question at a time; it accepts 256.
CONNECTIONS_MAX: Final = 200
_PLACE: Final = f"http://scheduler{admission.PATH}"
_ALIVE: Final = f"http://scheduler{admission.ALIVE_PATH}"
_HEADERS: Final = {"Content-Type": "application/json"}
#: Every question is built into a request for its own sake; these cost and nobody reads them.
_SKIPPED: Final = ("User-Agent", "Accept", "Accept-Encoding")
#: The budget is kept here, once for a whole question.
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
_WARNING_INTERVAL_S: Final = 60.0
_SHOWN_MAX: Final = 200

_ANSWER: Final = msgspec.json.Decoder(AdmissionDecision)
_log = structlog.get_logger(__name__)


class SchedulerClient:
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

    async def ask(self, question: admission.AdmissionQuery) -> AdmissionDecision | None:
        """The scheduler's answer, or None where there is none in time."""
        try:
            async with asyncio.timeout(self._budget_s):
                body = msgspec.json.encode(question)
                return self._read(await ask(self._opened(), _PLACE, body, _HEADERS))
        except TimeoutError:
            self._warn(f"no answer within {self._budget_s:g} s")
        except (aiohttp.ClientError, OSError, AnswerTooLong) as error:
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

    def _read(self, reply: Reply) -> AdmissionDecision | None:
        if reply.status != 200:
            text = reply.content[:_SHOWN_MAX].decode("utf-8", "replace")
            self._warn(f"status {reply.status}: {text}")
            return None
        return _ANSWER.decode(reply.content)

    def _warn(self, problem: str) -> None:
        """At most once a minute: while the scheduler is away every pod ends up here."""
        if self._now() >= self._next_warning:
            self._next_warning = self._now() + _WARNING_INTERVAL_S
            _log.warning(
                f"The scheduler does not answer on {self._socket} ({problem}); "
                "pods are admitted without MIG fallback until it does"
            )
