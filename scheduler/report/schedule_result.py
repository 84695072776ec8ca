"""Reports the result of a scheduling attempt: the pod is bound, or pending with a reason.

Each decision has one log line with the same keys, whatever its ``result``.
"""

from __future__ import annotations

from typing import Any, Final

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
from scheduler.model.reasons import autoscaling
from scheduler.report.decisions.journal import Record
from scheduler.report.metrics import Metrics
from scheduler.state.queue.scheduling_queue import QueuedPodInfo

#: A higher number of attempts would only add a time series.
ATTEMPTS_MAX: Final = 14

log = structlog.get_logger("scheduler")


def bound(
    metrics: Metrics, placement: Placement, entry: QueuedPodInfo, record: Record, now: float
) -> tuple[RecordScheduled | RecordPodEvent, ...]:
    """Log and count that a pod is bound; returns its events."""
    pod = placement.pod
    shown = placement.cuda_visible_devices or format_devices(placement.devices) or "none"
    log.info(
        f"Successfully scheduled pod {pod.name} to node {placement.node_name}"
        f" (GPU devices: {shown})",
        **_of_placement("placed", placement, record, ""),
    )
    metrics.attempts.labels("scheduled", metrics.profile).inc()
    label = str(entry.attempts + 1) if entry.attempts < ATTEMPTS_MAX else "15+"
    metrics.sli_s.labels(label).observe(now - entry.since)
    notes = (
        RecordPodEvent(pod, reason, text, decision_id=record.id) for reason, text in placement.notes
    )
    return (RecordScheduled(pod, placement.node_name, record.id), *notes)


def failed(placement: Placement, record: Record) -> None:
    """Log that the API server did not bind the pod."""
    reason = record.problem or record.end
    log.warning("binding failed", **_of_placement("failed", placement, record, reason))


def dropped(placement: Placement, record: Record, reason: str) -> None:
    """Log that a placement was taken back before its Binding ended."""
    log.info("placement dropped", **_of_placement("dropped", placement, record, reason))


def _of_placement(result: str, placement: Placement, record: Record, reason: str) -> dict[str, Any]:
    devices = format_devices(placement.devices)
    return _facts(result, placement.pod, record, placement.node_name, devices, reason)


def _facts(
    result: str, pod: Pod, record: Record, node_name: str, devices: str, reason: str
) -> dict[str, Any]:
    """The keys of the line of a decision; docs/logs.md explains them."""
    return {
        "result": result,
        "pod": pod.key,
        "node": node_name,
        "devices": devices,
        "reason": reason,
        "decision": record.id,
        "took_ms": round(record.took_s * 1e3, 1),
    }


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
    reason, waits_for = autoscaling.shown(
        diagnosis.condition_reason(is_mapped=pod.map_text is not None),
        nominated=rejection.nominated_node,
        awaited=awaited,
    )
    result = "error" if INTERNAL in codes else "unschedulable"
    metrics.attempts.labels(result, metrics.profile).inc()
    for code in codes:
        metrics.rejections.labels(code.name).inc()
    log.info(
        "Unable to schedule pod", **_facts("waits", pod, record, waits_for, "", record.message)
    )
    return RecordUnscheduled(pod, record.message, reason, record.id, waits_for)
