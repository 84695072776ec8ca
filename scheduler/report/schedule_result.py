"""What is said and counted about a pod in the end: it is bound, or it waits and why."""

from __future__ import annotations

import structlog

from scheduler.framework.decision import PendingPlacement, Placement
from scheduler.framework.reason_codes import INTERNAL
from scheduler.model.condition_reason import ConditionReason
from scheduler.model.device import format_devices
from scheduler.model.pod import Pod
from scheduler.model.reason import Diagnosis
from scheduler.report.decisions.journal import Record
from scheduler.report.events.recorder import Recorder
from scheduler.report.metrics import Metrics
from scheduler.state.queue.scheduling_queue import QueuedPodInfo

#: Longer series would say nothing more.
ATTEMPTS_MAX = 14

log = structlog.get_logger("scheduler")


def bound(
    recorder: Recorder, metrics: Metrics, sent: tuple[Placement, QueuedPodInfo, Record], now: float
) -> None:
    """Say to the log, the metrics and the pod where it is."""
    placement, entry, record = sent
    pod, decision_id = placement.pod, record.id
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
    recorder.scheduled(pod, placement.node_name, decision_id=decision_id)
    for reason, text in placement.notes:
        recorder.note(pod, reason, text, decision_id=decision_id)


def cut_first(recorder: Recorder, carve: PendingPlacement) -> None:
    """Say to the pod that its place is being made; the event of the request names the slots."""
    text = f"waits until {carve.node_name} has the MIG instances that are being cut for it"
    recorder.waits(carve.pod, text, carve.node_name)


def refused(
    recorder: Recorder,
    metrics: Metrics,
    pod: Pod,
    record: Record,
    diagnosis: Diagnosis,
    awaited: str = "",
) -> None:
    """Say to the log, the metrics and the pod why it waits; ``awaited`` is the node that becomes
    free for it, or is being cut for it, if there is one."""
    codes = diagnosis.codes()
    is_ours = INTERNAL in codes
    reason = diagnosis.condition_reason(is_mapped=pod.map_text is not None)
    waits_for = awaited if reason is ConditionReason.UNSCHEDULABLE else ""
    if waits_for:
        reason = ConditionReason.WAITING_FOR_CAPACITY
    recorder.failed(pod, record.message, reason, record.id, waits_for)
    metrics.attempts.labels("error" if is_ours else "unschedulable", metrics.profile).inc()
    for code in codes:
        metrics.rejections.labels(code.name).inc()
    log.info("Unable to schedule pod", pod=pod.key, reason=record.message, decision=record.id)
