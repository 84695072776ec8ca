"""One process's moves, put together: what looks for them, and what runs their errands.

::

    loop --events--> Moves --errands--> Errands --> the API server
      ^------------------ answers, and the watch of tickets
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from scheduler.bind.errands import Errands
from scheduler.config import Config
from scheduler.moves import Moves
from scheduler.report.metrics import Metrics
from scheduler.report.moved import Moved, Teller
from scheduler.scout import Settings, State
from scheduler.state import event as ev
from scheduler.state.cluster import Cluster
from scheduler.state.promise import Promises
from scheduler.state.queue import Queue
from scheduler.watch.client import Client


class Moving:
    """Makes a loop's moves; ``run`` does what they ask for."""

    def __init__(
        self,
        config: Config,
        client: Client,
        teller: Teller,
        metrics: Metrics,
        emit: Callable[[ev.MoveNews], None],
        leads: Callable[[], bool],
        wall: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._moved = Moved(teller, lambda move, result: metrics.moves.labels(move, result).inc())
        self._errands = Errands(client, config.leader_election.resource_namespace, emit, leads)
        self._wall = wall

    def moves(self, cluster: Cluster, queue: Queue, promises: Promises) -> Moves:
        """The moves of a loop with this state."""
        restore = self._config.restore
        return Moves(
            State(cluster, queue, promises),
            Settings(
                mode=restore.mode_word(),
                timings=restore.timings(),
                rules=self._config.rules(),
            ),
            self._moved,
            self._errands.send,
            lambda: self._wall().timestamp(),
            lambda: secrets.token_hex(4),
        )

    def run(self) -> Coroutine[Any, Any, None]:
        """Run errands for ever; ends by cancellation."""
        return self._errands.run()
