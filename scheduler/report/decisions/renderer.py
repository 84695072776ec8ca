"""Renders the journal's records, on request only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from scheduler.decide.explain import Outcome, explain_placement, explain_rejection
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.report.decisions.api_types import Admitted, Ahead, Decided, Tier, Waiting
from scheduler.report.decisions.journal import AdmissionRecord, Record
from scheduler.report.wall_times import WallTimes
from scheduler.state.queue.position import Position
from scheduler.state.queue.scheduling_queue import QueuedPodInfo


class DecisionRenderer:
    """Converts records into responses; ``clock`` is the loop's, ``wall`` the wall clock."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._clock = clock
        self._times = WallTimes(clock, wall)

    def time(self, moment: float) -> str:
        """A time of the loop's clock, as a timestamp."""
        return self._times.now().at(moment)

    def decided(self, record: Record, rows_max: int | None = None) -> Decided:
        """One decision; at most ``rows_max`` rejections of nodes."""
        outcome = _outcome(record)
        dropped = record.placement is None and record.diagnosis is None
        if rows_max is not None and len(outcome.refusals) > rows_max:
            outcome = msgspec.structs.replace(outcome, refusals=outcome.refusals[:rows_max])
            dropped = True
        return Decided(
            id=record.id,
            time=self.time(record.at),
            namespace=record.namespace,
            pod=record.name,
            uid=record.uid,
            attempt=record.attempt,
            generation=record.generation,
            outcome=outcome,
            ranking=record.ranking,
            fallback=record.fallback,
            end=record.end,
            problem=record.problem,
            detail_dropped=dropped,
        )

    def admitted(self, record: AdmissionRecord) -> Admitted:
        """The admission of a pod."""
        return Admitted(
            time=self.time(record.at),
            result=record.result,
            asked=_profiles(record.asked),
            granted=_profiles(record.granted),
            tried=tuple(Tier(tier=tier, message=message) for tier, message in record.tried),
        )

    def waiting(self, entry: QueuedPodInfo, place: Position) -> Waiting:
        """A pod's place in the queue."""
        now = self._clock()
        return Waiting(
            place=entry.place,
            attempts=entry.attempts,
            waits_s=round(max(0.0, now - entry.since), 3),
            next_try_s=round(max(0.0, entry.ready_at - now), 3) if entry.ready_at else None,
            woken_by=tuple(cause.value for cause in RequeueCause if cause in entry.causes),
            position=place.position,
            of=place.of,
            before=tuple(map(_ahead, place.before)),
        )


def _outcome(record: Record) -> Outcome:
    if record.placement is not None:
        return explain_placement(record.placement)
    if record.diagnosis is not None:
        return explain_rejection(record.diagnosis, record.message, record.preemption)
    return Outcome(message=record.message, preemption=record.preemption)


def _ahead(pod: Pod) -> Ahead:
    return Ahead(
        namespace=pod.namespace, pod=pod.name, priority=pod.priority, asks=pod.gpu_requests
    )


def _profiles(resources: tuple[str, ...]) -> str:
    return " ".join(well_known.mig_profile(resource) for resource in resources)
