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

import msgspec
import structlog

from scheduler.model import admission
from scheduler.model.admission import Answer
from webhook.unixhttp import Confused, Exchange, Response, UnixHttp

BUDGET_S: Final = 1.0
_WARNING_INTERVAL_S: Final = 60.0
_SHOWN_MAX: Final = 200

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
        self._http = UnixHttp(socket)
        self._budget_s = budget_s
        self._now = now
        self._next_warning = -_WARNING_INTERVAL_S

    def begin(self, question: admission.Question) -> Exchange:
        """Ask; the scheduler works on it from now on, whatever is done here before waiting."""
        return self._http.begin("POST", admission.PATH, msgspec.json.encode(question))

    async def answer_to(self, exchange: Exchange) -> Answer | None:
        """The scheduler's answer, or None where there is none in time."""
        try:
            async with asyncio.timeout(self._budget_s):
                return self._read(await self._http.end(exchange))
        except TimeoutError:
            self._warn(f"no answer within {self._budget_s:g} s")
        except (Confused, OSError) as error:
            self._warn(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._warn(f"an answer that cannot be read: {error}")
        return None

    async def say_alive(self) -> None:
        """Tell the scheduler that we serve; if it does not hear it, there is nothing to do."""
        with contextlib.suppress(TimeoutError, Confused, OSError):
            async with asyncio.timeout(self._budget_s):
                await self._http.request("GET", admission.ALIVE_PATH)

    async def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def _read(self, response: Response) -> Answer | None:
        status, body = response
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
