"""Placements from the decision to the result of the Binding."""

from __future__ import annotations

from collections.abc import Iterable

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


class Together(msgspec.Struct, eq=False):
    """Bindings that start together; ``missing`` are those that are not ready yet.

    ``is_broken`` once one of the placements was taken back.
    """

    missing: set[str]
    ready: list[str] = []
    is_broken: bool = False


class BindingController:
    """Starts Bindings and reports their results."""

    name = "bindings"
    handles = (ev.BindEnded,)

    def __init__(self, binder: Binder, metrics: Metrics) -> None:
        self._binder = binder
        self._metrics = metrics
        self._assumed: dict[str, AssumedPlacement] = {}
        self._together: dict[str, Together] = {}
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
        """Send the Binding, or keep it until those beside it are ready; its result arrives as an
        event.
        """
        together = self._together.get(uid) if self._together else None
        if together is None:
            self._send(uid)
            return
        together.missing.discard(uid)
        together.ready.append(uid)
        if together.missing or together.is_broken:
            return
        for one in together.ready:
            del self._together[one]
            self._send(one)

    def hold_together(self, uids: Iterable[str]) -> None:
        """These Bindings start when all of them are ready."""
        together = Together(set(uids))
        self._together.update((uid, together) for uid in together.missing)

    def left_behind(self) -> tuple[str, ...]:
        """Placements whose Binding will not start, since one beside it was taken back."""
        return tuple(uid for uid, one in self._together.items() if one.is_broken)

    def _send(self, uid: str) -> None:
        assumed = self._assumed[uid]
        self._binder.start(assumed.placement, assumed.record.id)

    def placement_of(self, uid: str) -> Placement | None:
        """The placement of a pod that is assumed."""
        assumed = self._assumed.get(uid)
        return None if assumed is None else assumed.placement

    def drop(self, uid: str, reason: str) -> QueuedPodInfo | None:
        """Remove a placement; returns its queue entry."""
        assumed = self._assumed.pop(uid, None)
        together = self._together.pop(uid, None) if self._together else None
        if together is not None:
            together.is_broken = True
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
