"""Placements from the decision to the result of the Binding."""

from __future__ import annotations

import msgspec
import structlog

from scheduler.bind.binder import Binder
from scheduler.framework.decision import PendingPlacement, Placement
from scheduler.report import schedule_result
from scheduler.report.decisions.journal import Record
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.queue.scheduling_queue import QueuedPodInfo

log = structlog.get_logger("scheduler")


class AssumedPlacement(msgspec.Struct, frozen=True):
    """A decision that the API server has not confirmed; ``steps`` come before its Binding."""

    placement: Placement
    entry: QueuedPodInfo
    record: Record
    steps: set[str]


class BindingController:
    """Starts Bindings and reports their results."""

    name = "bindings"
    handles = (ev.BindEnded,)

    def __init__(self, binder: Binder, metrics: Metrics) -> None:
        self._binder = binder
        self._metrics = metrics
        self._assumed: dict[str, AssumedPlacement] = {}
        metrics.begin_at_zero(metrics.binds, *((one.value,) for one in ev.BindOutcome))

    def assume(self, placement: Placement, entry: QueuedPodInfo, record: Record) -> None:
        """Store a placement; its Binding is started at once or when its node is ready."""
        steps = placement.steps if isinstance(placement, PendingPlacement) else ()
        names = {step.name for step in steps}
        if steps:
            log.debug(
                "binding waits",
                detail=True,
                pod=placement.pod.key,
                node=placement.node_name,
                steps=", ".join(map(str, steps)),
                decision=record.id,
            )
        self._assumed[placement.pod.uid] = AssumedPlacement(placement, entry, record, names)

    def complete(self, uid: str, step: str) -> bool:
        """A step of a placement is complete; whether it was the last one."""
        steps = self._assumed[uid].steps
        steps.discard(step)
        return not steps

    def start(self, uid: str) -> None:
        """Send the Binding; its result arrives as an event."""
        assumed = self._assumed[uid]
        self._binder.start(assumed.placement, assumed.record.id)

    def drop(self, uid: str, reason: str) -> QueuedPodInfo | None:
        """Remove a placement; returns its queue entry."""
        assumed = self._assumed.pop(uid, None)
        if assumed is None:
            return None
        if not assumed.record.end:
            schedule_result.dropped(assumed.placement, assumed.record, reason)
        return assumed.entry

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Record the result of a Binding."""
        if not isinstance(event, ev.BindEnded):
            return NOTHING
        self._metrics.binds.labels(event.outcome.value).inc()
        assumed = self._assumed.get(event.uid)
        if assumed is not None:
            assumed.record.end, assumed.record.problem = event.outcome.value, event.message
        if assumed is None:
            return NOTHING
        placement, entry, record = assumed.placement, assumed.entry, assumed.record
        if event.outcome is not ev.BindOutcome.BOUND:
            schedule_result.failed(placement, record)
            return NOTHING
        del self._assumed[event.uid]
        return schedule_result.bound(self._metrics, placement, entry, record, now)

    async def drain(self, timeout_s: float) -> None:
        """Wait for the Bindings in flight, as long as the timeout allows."""
        await self._binder.drain(timeout_s)

    @property
    def in_flight(self) -> int:
        """Number of Bindings without a response yet."""
        return self._binder.in_flight
