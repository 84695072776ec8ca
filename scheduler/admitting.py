"""The scheduler's side of admission, put together: what answers the webhook, here and elsewhere.

::

    webhook beside us --socket--> Answerer --not leading--> Forwarder --TLS--> the leader
    other replicas ------TLS----> Answerer, which then asks nobody else
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

from scheduler import forward
from scheduler.answer import Answerer
from scheduler.config import Config
from scheduler.decide.admit import Rules
from scheduler.loop import Loop
from scheduler.report.metrics import Metrics


class Election(Protocol):
    """What is asked of the election."""

    leader_address: str


class Admitting:
    """One process's part in admission."""

    def __init__(
        self,
        config: Config,
        replicas: forward.Settings | None,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._metrics = metrics
        self._clock = clock

    def stages(
        self, loop: Loop, election: Election
    ) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What has to run beside the loop, by name."""
        if not self._config.expects_webhook:
            return
        forwarder = self._forwarder(election)
        answerer = Answerer(loop, self._rules(), self._metrics, self._clock, forwarder)
        yield "answer", answerer.serve(Path(self._config.webhook.socket))
        if self._replicas is not None:
            yield "replicas", forward.serve(self._replicas, answerer.reply)

    def _forwarder(self, election: Election) -> forward.Forwarder | None:
        if self._replicas is None:
            return None
        return forward.Forwarder(self._replicas, lambda: election.leader_address, self._clock)

    def _rules(self) -> Rules:
        fallback = self._config.fallback
        return Rules(
            profile=self._config.profile(), scope=fallback.scope, ladders=fallback.parsed()
        )
