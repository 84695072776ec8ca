"""Recreates pods that the webhook did not mutate, once the webhook answers.

``state/breakers/recreate_budget`` decides which pods and how often; the action deletes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import structlog

from scheduler.model.actions import RecordPodEvent, RecreatePod
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.breakers.recreate_budget import TRIES_MAX, RecreateBudget, WebhookLiveness
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.scheduler_state import SchedulerState

REASON: Final = "NotMutated"

log = structlog.get_logger("recreate")


class PodRecreationController:
    """Recreates the pods of one scheduler that need a webhook mutation."""

    name = "pod-recreation"
    handles = (ev.PodRecreated,)

    def __init__(self, state: SchedulerState, metrics: Metrics, webhook: WebhookLiveness) -> None:
        self._state = state
        self._metrics = metrics
        self._budget = RecreateBudget(webhook)

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Report a deletion."""
        if not isinstance(event, ev.PodRecreated):
            return NOTHING
        pod = event.pod
        self._metrics.replaced.labels(event.result).inc()
        log.warning("pod recreated", pod=pod.key, result=event.result, tries=event.attempt)
        if event.result != "replaced" or pod.owner is None:
            return NOTHING
        text = (
            f"deleted so that {pod.owner.kind} {pod.owner.name} creates it again, with the"
            f" webhook this time (try {event.attempt} of at most {TRIES_MAX} for its owner)"
        )
        return (RecordPodEvent(pod, REASON, text),)

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Recreate the due pods."""
        if not leads:
            return NOTHING
        pods = self._budget.due(list(self._waiting()), now)
        return tuple(RecreatePod(pod, self._budget.count(pod)) for pod in pods)

    def _waiting(self) -> Iterator[Pod]:
        """Pods that only a new admission can help, as the watch shows them."""
        for entry in self._state.queue.entries():
            pod = self._state.cluster.pods.get(entry.pod.uid)
            if RequeueCause.ADMISSION in entry.causes and pod is not None:
                yield pod
