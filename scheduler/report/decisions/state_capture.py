"""The snapshot: the whole state and the decisions made on it, as one document.

State and decisions are taken in one step, so nothing changes between them: a repeated decision on
this state has the same bytes.

It does not change the state: it decides, and assumes no placement.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import islice

import msgspec

from scheduler.config import Config
from scheduler.decide.explain import Outcome, explain
from scheduler.decide.gang.decisions import Decisions
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import micro_time
from scheduler.report.decisions.api_types import API_VERSION, SNAPSHOT_VERSION, Pending, Snapshot
from scheduler.report.decisions.journal import DecisionContext, Journal
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.decisions.waiters import AwaitedDecision
from scheduler.state.snapshot import ClusterSnapshot

#: A snapshot blocks the loop for at most this time.
DECIDING_MAX_S = 0.25
DECISIONS_MAX = 500
#: Maximum number of rejecting nodes of each past decision; those of pending pods are complete.
ROWS_MAX = 100


class StateCapture:
    """Takes snapshots of one process."""

    def __init__(
        self,
        context: DecisionContext,
        journal: Journal,
        config: Config,
        program: str,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._context = context
        self._journal = journal
        self._configuration = msgspec.Raw(msgspec.json.encode(config))
        self._program = program
        self._clock = clock
        self._wall = wall
        self._renderer = DecisionRenderer(clock, wall)

    def take(self) -> Snapshot:
        """The current state, with a decision about every waiting pod if time allows."""
        state = self._context.state()
        deadline = self._clock() + DECIDING_MAX_S
        decisions = Decisions(self._context.cluster, self._context.pipeline)
        pending: list[Pending] = []
        for one in state.queue:
            if pending and self._clock() > deadline:
                break
            pending.append(_pending(one.pod, explain(decisions.of(one.pod))))
        left_out = len(state.queue) - len(pending)
        return self._snapshot(state, tuple(pending), left_out=left_out)

    def of(self, caught: AwaitedDecision) -> Snapshot:
        """The state on which a decision was made, with that decision."""
        pending = _pending(caught.pod, explain(caught.decision))
        left_out = len(caught.state.queue) - 1
        return self._snapshot(caught.state, (pending,), left_out=left_out, caught=caught.id)

    def _snapshot(
        self,
        state: ClusterSnapshot,
        pending: tuple[Pending, ...],
        *,
        left_out: int,
        caught: str = "",
    ) -> Snapshot:
        records = islice(self._journal.newest(), DECISIONS_MAX)
        return Snapshot(
            api_version=API_VERSION,
            version=SNAPSHOT_VERSION,
            program=self._program,
            time=micro_time(self._wall()),
            settings=self._context.pipeline.settings,
            configuration=self._configuration,
            state=state,
            pending=pending,
            left_out=left_out,
            caught=caught,
            decisions=tuple(self._renderer.decided(record, ROWS_MAX) for record in records),
        )


def _pending(pod: Pod, outcome: Outcome) -> Pending:
    return Pending(namespace=pod.namespace, pod=pod.name, uid=pod.uid, outcome=outcome)
