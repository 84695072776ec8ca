"""What a plan has to tell: events of the node and of pods on it, and marks on reservation pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

from fakegpu.controller.plan_types import Mark, Memory, Note, View
from fakegpu.node import faults, mig_manager
from fakegpu.node.admission import Refusal
from fakegpu.node.device_status import holders_of
from fakegpu.node.pod_devices import PodUse
from fakegpu.topology.node_topology import NodeTopology

#: As the kubelet says it.
NOT_ADMITTED: Final = "UnexpectedAdmissionError"


def notes(
    view: View,
    topology: NodeTopology,
    step: mig_manager.Step,
    known: faults.Faults,
    memory: Memory,
) -> Iterable[Note]:
    """What the node's events should say now; each is sent when it is new."""
    if step.note:
        yield Note("MigConfigFailed", f"MIG configuration {step.note}")
    elif step.state == "success" and memory.ready_at is not None:
        yield Note("MigConfigApplied", "MIG configuration carried out", is_warning=False)
    for problem in known.problems:
        yield Note("AnnotationIgnored", problem)
    by_name = {(pod.namespace, pod.name): pod for pod in view.pods}
    for index, gpu in enumerate(topology.gpus):
        if gpu.failure is UNSET or not faults.is_fatal(gpu.failure):
            continue
        text = f"GPU {index} ({gpu.id}) of node {view.node.name} {gpu.failure}"
        yield Note("GpuFailed", text)
        holders = {(one.namespace, one.pod) for one in holders_of(gpu)}
        for key in sorted(holders & by_name.keys()):
            yield Note("GpuFailed", f"{text}; this pod holds it", pod=by_name[key])


def refused(refusals: Iterable[Refusal]) -> Iterable[Note]:
    """What the pods' events should say that a kubelet would not have admitted."""
    for one in refusals:
        yield Note(NOT_ADMITTED, f"Allocate failed: {one.text}", pod=one.pod)


def marks(topology: NodeTopology, pods: Iterable[PodUse]) -> Iterable[Mark]:
    """Reservation pods that hold a device and do not carry its id yet."""
    held = {
        (holder.namespace, holder.pod): gpu.id
        for gpu in topology.gpus
        for holder in gpu.status.held_by
    }
    for pod in pods:
        device = held.get((pod.namespace, pod.name))
        if pod.reservation and device and not pod.marked:
            yield Mark(pod.namespace, pod.name, pod.uid, device)
