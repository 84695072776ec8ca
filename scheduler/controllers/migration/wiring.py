"""A loop's moves, put together of configuration, people to tell, and who runs errands.

::

    loop --events--> Moves --errands--> Errands --> the API server
      ^------------------ answers, and the watch of tickets
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime

from scheduler.config import Config
from scheduler.containment import Containment
from scheduler.controllers.migration.controller import MigrationController
from scheduler.controllers.migration.planner import MigrationInputs, PlannerSettings
from scheduler.model.crd.migration_actions import Errand
from scheduler.model.pod import Pod
from scheduler.report.events.migration_events import EventSink, MigrationEvents
from scheduler.report.metrics import Metrics
from scheduler.state.cache.cluster import Cluster
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations


class Moving:
    """Makes a loop's moves; ``send`` does what they ask for, ``look_up`` asks how a pod ended."""

    def __init__(
        self,
        config: Config,
        teller: EventSink,
        metrics: Metrics,
        send: Callable[[Errand], None],
        look_up: Callable[[Pod], None],
        wall: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._contain = Containment(metrics.count_internal_error)
        self._moved = MigrationEvents(
            teller, lambda move, result: metrics.moves.labels(move, result).inc()
        )
        self._send = send
        self._look_up = look_up
        self._wall = wall

    def moves(
        self, cluster: Cluster, queue: SchedulingQueue, promises: Reservations
    ) -> MigrationController:
        """The moves of a loop with this state."""
        restore = self._config.restore
        return MigrationController(
            MigrationInputs(cluster, queue, promises),
            PlannerSettings(
                mode=restore.mode_word(),
                timings=restore.timings(),
                rules=self._config.rules(),
            ),
            self._moved,
            self._send,
            self._look_up,
            lambda: self._wall().timestamp(),
            lambda: secrets.token_hex(4),
            self._contain,
        )
