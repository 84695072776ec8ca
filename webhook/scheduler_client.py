"""The client of the scheduler in the same pod: one query per pod, over a Unix socket.

The webhook has no cluster state of its own. Without a valid answer in time the result is None: no
request is degraded, maps keep their literal values, and the pod is admitted. The timeout is well
below the API server's limit of two seconds.
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
from scheduler.model.admission import AdmissionDecision, OtherVersions
from scheduler.model.decisions import messages
from scheduler.model.decisions.messages import DecisionsQuery, FrontProxy, NamespaceAnswer

BUDGET_S: Final = 1.0
#: Connections to the scheduler, each with one query at a time; the scheduler accepts 256.
CONNECTIONS_MAX: Final = 200
_PLACE: Final = f"http://scheduler{admission.PATH}"
_ALIVE: Final = f"http://scheduler{admission.ALIVE_PATH}"
_DECISIONS: Final = f"http://scheduler{messages.PATH}"
_FRONT_PROXY: Final = f"http://scheduler{messages.FRONT_PROXY_PATH}"
#: The scheduler may have to ask the leader, which decides for the answer.
DECISIONS_BUDGET_S: Final = 5.0
_HEADERS: Final = {"Content-Type": "application/json"}
#: Default headers that cost time for every query and that the scheduler ignores.
_SKIPPED: Final = ("User-Agent", "Accept", "Accept-Encoding")
#: No timeout of aiohttp's: one timeout covers the whole query.
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
#: More than a ConfigMap can hold.
FRONT_PROXY_MAX: Final = 2 * 1024 * 1024
_WARNING_INTERVAL_S: Final = 60.0
_SHOWN_MAX: Final = 200

_NAMESPACE_ANSWER: Final = msgspec.json.Decoder(NamespaceAnswer)
_AUTHORITY: Final = msgspec.json.Decoder(FrontProxy)
_ANSWER: Final = msgspec.json.Decoder(AdmissionDecision)
_log = structlog.get_logger(__name__)


class SchedulerClient:
    """Sends queries to the scheduler's Unix socket."""

    def __init__(
        self,
        socket: Path,
        *,
        budget_s: float = BUDGET_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Opens no connection yet: the scheduler may start later and stop earlier than the
        webhook.
        """
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None
        self._budget_s = budget_s
        self._now = now
        self._next_warning = -_WARNING_INTERVAL_S
        self._scheduler_versions = OtherVersions()

    async def ask(self, question: admission.AdmissionQuery) -> AdmissionDecision | None:
        """The scheduler's answer, or None without one in time."""
        try:
            async with asyncio.timeout(self._budget_s):
                versioned = msgspec.structs.replace(question, version=admission.VERSION)
                body = msgspec.json.encode(versioned)
                return self._read(await ask(self._opened(), _PLACE, body, _HEADERS))
        except TimeoutError:
            self._warn(f"no answer within {self._budget_s:g} s")
        except (aiohttp.ClientError, OSError, AnswerTooLong) as error:
            self._warn(str(error) or type(error).__name__)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._warn(f"invalid answer: {error}")
        return None

    async def say_alive(self) -> None:
        """Report to the scheduler that the webhook serves; errors are ignored."""
        with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with asyncio.timeout(self._budget_s), self._opened().get(_ALIVE):
                pass

    async def decisions(self, query: DecisionsQuery) -> NamespaceAnswer | None:
        """The decisions about pods of one namespace, or None without an answer in time.

        A leader that is busy answers with the time after which it is asked again.
        """
        try:
            async with asyncio.timeout(DECISIONS_BUDGET_S):
                body = msgspec.json.encode(query)
                reply = await ask(self._opened(), _DECISIONS, body, _HEADERS)
                is_read = reply.status in (200, messages.BUSY)
                return _NAMESPACE_ANSWER.decode(reply.content) if is_read else None
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError, RecursionError):
            return None

    async def front_proxy(self) -> FrontProxy | None:
        """Which clients may proxy for users, or None while the scheduler does not know it."""
        try:
            async with (
                asyncio.timeout(self._budget_s),
                self._opened().get(_FRONT_PROXY) as response,
            ):
                content = await response.content.read(FRONT_PROXY_MAX)
                return _AUTHORITY.decode(content) if response.status == 200 else None
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError, RecursionError):
            return None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """The session, created in the event loop that uses it."""
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
        answer = _ANSWER.decode(reply.content)
        if self._scheduler_versions.is_news(answer.version):
            # Both use the fields that they know.
            _log.info("scheduler of another version", version=answer.version, own=admission.VERSION)
        return answer

    def _warn(self, problem: str) -> None:
        """Log at most once a minute: without the scheduler every pod fails here."""
        if self._now() >= self._next_warning:
            self._next_warning = self._now() + _WARNING_INTERVAL_S
            _log.warning(
                "no answer from the scheduler, pods admitted without MIG fallback",
                socket=str(self._socket),
                problem=problem,
            )
