"""The way to the scheduler beside us: one question per pod, over a Unix socket.

The webhook knows nothing about free devices by itself. If the scheduler is silent, slow or
confused, the answer is None: nobody is degraded, maps keep their literal values, and the pod is
admitted. The budget leaves the API server's own limit of two seconds with room to spare.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
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
_CONNECTIONS_MAX: Final = 256
_ANSWER_BYTES_MAX: Final = 1024 * 1024
_WARNING_INTERVAL_S: Final = 60.0
_SHOWN_MAX: Final = 200
#: A formality: the connector knows one socket and no network.
_HOST: Final = "http://scheduler"
_HEADERS: Final = {"Content-Type": "application/json"}

_ANSWER: Final = msgspec.json.Decoder(Answer)
_log = structlog.get_logger(__name__)


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
        self._budget_s = budget_s
        self._now = now
        self._session: aiohttp.ClientSession | None = None
        self._next_warning = -_WARNING_INTERVAL_S

    async def ask(self, question: admission.Question) -> Answer | None:
        """The scheduler's answer, or None where there is none in time."""
        try:
            async with asyncio.timeout(self._budget_s):
                return await self._exchange(question)
        except TimeoutError:
            self._warn(f"no answer within {self._budget_s:g} s")
        except (aiohttp.ClientError, OSError) as error:
            self._warn(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._warn(f"an answer that cannot be read: {error}")
        return None

    async def say_alive(self) -> None:
        """Tell the scheduler that we serve; if it does not hear it, there is nothing to do."""
        with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with asyncio.timeout(self._budget_s):
                async with self._connected().get(f"{_HOST}{admission.ALIVE_PATH}"):
                    pass

    async def close(self) -> None:
        """Give the connections back."""
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, question: admission.Question) -> Answer | None:
        url = f"{_HOST}{admission.PATH}"
        content = io.BytesIO(msgspec.json.encode(question))
        async with self._connected().post(url, data=content, headers=_HEADERS) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _ANSWER_BYTES_MAX:
                    self._warn(f"an answer longer than {_ANSWER_BYTES_MAX} bytes")
                    return None
            if response.status != 200:
                text = body[:_SHOWN_MAX].decode("utf-8", "replace")
                self._warn(f"status {response.status}: {text}")
                return None
            return _ANSWER.decode(body)

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=self._connector())
        return self._session

    def _connector(self) -> aiohttp.UnixConnector:
        # A connection kept from before a restart of the scheduler would cost a pod its answer,
        # and a new one on a Unix socket costs next to nothing.
        return aiohttp.UnixConnector(str(self._socket), limit=_CONNECTIONS_MAX, force_close=True)

    def _warn(self, problem: str) -> None:
        """At most once a minute: while the scheduler is away every pod ends up here."""
        if self._now() >= self._next_warning:
            self._next_warning = self._now() + _WARNING_INTERVAL_S
            _log.warning(
                f"The scheduler does not answer on {self._socket} ({problem}); "
                "pods are admitted without MIG fallback until it does"
            )
