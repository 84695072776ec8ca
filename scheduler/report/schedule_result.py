"""Reports the result of a scheduling attempt: the pod is bound, or pending with a reason."""

from __future__ import annotations

from typing import Final

import structlog

from scheduler.framework.decision import PendingPlacement, Placement, Rejection
from scheduler.framework.reason_codes import INTERNAL
from scheduler.model.actions import (
    RecordPodEvent,
    RecordScheduled,
    RecordUnscheduled,
    RecordWaiting,
)
from scheduler.model.gpu.device import format_devices
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.report.decisions.journal import Record
from scheduler.report.metrics import Metrics
from scheduler.state.queue.scheduling_queue import QueuedPodInfo

#: A higher number of attempts would only add a time series.
ATTEMPTS_MAX: Final = 14

log = structlog.get_logger("scheduler")


def bound(
    metrics: Metrics, placement: Placement, entry: QueuedPodInfo, decision_id: str, now: float
) -> tuple[RecordScheduled | RecordPodEvent, ...]:
    """Log and count that a pod is bound; returns its events."""
    pod = placement.pod
    shown = placement.cuda_visible_devices or format_devices(placement.devices) or "none"
    log.info(
        f"Successfully scheduled pod {pod.name} to node {placement.node_name}"
        f" (GPU devices: {shown})",
        namespace=pod.namespace,
        decision=decision_id,
    )
    metrics.attempts.labels("scheduled", metrics.profile).inc()
    label = str(entry.attempts + 1) if entry.attempts < ATTEMPTS_MAX else "15+"
    metrics.sli_s.labels(label).observe(now - entry.since)
    notes = (
        RecordPodEvent(pod, reason, text, decision_id=decision_id)
        for reason, text in placement.notes
    )
    return (RecordScheduled(pod, placement.node_name, decision_id), *notes)


def waits(placement: PendingPlacement) -> RecordWaiting:
    """The condition of a pod whose Binding waits for MIG instances or volumes on its node."""
    node_name = placement.node_name
    steps = " and for ".join(map(str, placement.steps))
    return RecordWaiting(placement.pod, f"waits for {steps} on node {node_name}", node_name)


def unscheduled(
    metrics: Metrics, pod: Pod, record: Record, rejection: Rejection, awaited: str = ""
) -> RecordUnscheduled:
    """Log and count why a pod is pending; returns its event and condition.

    ``awaited`` is the node with future capacity for the pod by a migration or by MIG instances, if
    there is one.
    """
    diagnosis = rejection.diagnosis
    codes = diagnosis.codes()
    reason = diagnosis.condition_reason(is_mapped=pod.map_text is not None)
    waits_for = awaited if reason is ConditionReason.UNSCHEDULABLE else ""
    waits_for = rejection.nominated_node or waits_for
    if waits_for:
        reason = ConditionReason.WAITING_FOR_CAPACITY
    result = "error" if INTERNAL in codes else "unschedulable"
    metrics.attempts.labels(result, metrics.profile).inc()
    for code in codes:
        metrics.rejections.labels(code.name).inc()
    log.info("Unable to schedule pod", pod=pod.key, reason=record.message, decision=record.id)
    return RecordUnscheduled(pod, record.message, reason, record.id, waits_for)
