"""GPU memory that the pod requests (annotation ``gpu-scheduler.io/gpu-memory``).

The webhook converts the annotation into a required node affinity on ``nvidia.com/gpu.memory``. The
pod's author did not write that affinity, so a node that fails nothing else gets a reason of its
own, before NodeAffinity rejects it.

The label and the name of a MIG profile have the memory of the whole device. Time-slicing and MPS
offer a device several times (label ``<resource>.replicas``), and the device plugin lets each pod
use all of its memory. So a pod can rely only on an equal part.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, ClassFilter, NodeFilter, Plugin, Reasons
from scheduler.model import well_known
from scheduler.model.gpu import gpu_memory
from scheduler.model.integer_text import whole
from scheduler.model.limits import GPU_MEMORY_MIB_MAX
from scheduler.model.mig.node_geometry import memory_mib, replicas
from scheduler.model.pods.pod import Pod
from scheduler.model.quantity import format_value
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.model.selector import Requirement, Term, matches_any
from scheduler.state.node_info import NodeInfo

GPU_MEMORY_TOO_SMALL = ReasonCode(
    name="GPU_MEMORY_TOO_SMALL",
    meaning=(
        "a GPU of the node, or the share of a GPU that a pod gets there, has too little memory"
    ),
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.POD,
    ),
    stage="GPUDevices",
    next_step=(
        "request less in gpu-scheduler.io/gpu-memory, or add nodes with larger GPUs; a"
        " share of a time-sliced GPU has only a part of its memory"
    ),
    words=(
        r"node\(s\) whose nvidia\.com/gpu\.memory is \d+ MiB",
        r"node\(s\) where \S+ is one of \d+ shares of a GPU",
    ),
)
GPU_MEMORY_UNKNOWN = ReasonCode(
    name="GPU_MEMORY_UNKNOWN",
    meaning="the node has no label nvidia.com/gpu.memory, and the pod requests GPU memory",
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.POD,
    ),
    stage="GPUDevices",
    next_step=(
        "run NVIDIA's GPU feature discovery on the node, or set the label: kubectl label"
        " node NODE nvidia.com/gpu.memory=MIB"
    ),
    words=(r"node\(s\) without the label nvidia\.com/gpu\.memory",),
)


def check_label(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject a node that matches the pod's selector, and a term except for its GPU memory."""
    terms = pod.required_terms
    if terms is None or well_known.GPU_MEMORY not in pod.label_keys:
        return FITS
    node = node_info.node
    assert node is not None
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return FITS
    if matches_any(terms, node.labels, node.name):
        return FITS
    for term in terms:
        least = max(map(_least, term.match_expressions), default=0)
        if not least:
            continue
        others = tuple(one for one in term.match_expressions if not _least(one))
        rest = Term(others, term.match_fields)
        if rest == Term() or matches_any((rest,), node.labels, node.name):
            return _label_too_small(memory_mib(node.labels), _need(pod, least))
    return FITS


def check_share(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject a node on which a share of a device has less memory than the pod requests."""
    if not pod.gpu_memory:
        return FITS
    node = node_info.node
    assert node is not None
    for resource, amount in pod.gpu_memory.items():
        shares = replicas(node.labels, resource)
        if shares > 1:
            have = gpu_memory.of_a_share(resource, memory_mib(node.labels), shares)
            if have < gpu_memory.least_mib(amount):
                return _share_too_small(resource, shares, have, amount)
    return FITS


@lru_cache(maxsize=1024)
def _share_too_small(resource: str, shares: int, have: int, amount: int) -> Reasons:
    text = (
        f"node(s) where {resource} is one of {shares} shares of a GPU with {have} MiB for each"
        f" ({gpu_memory.in_gib(have)}; the pod requests {format_value(well_known.MEMORY, amount)})"
    )
    return (Reason(code=GPU_MEMORY_TOO_SMALL, text=text, resolvable=False),)


def _least(requirement: Requirement) -> int:
    """The MiB that a requirement on ``nvidia.com/gpu.memory`` demands; 0 for any other
    requirement.
    """
    if (requirement.key, requirement.operator) != (well_known.GPU_MEMORY, "Gt"):
        return 0
    bound = whole(requirement.values[0], GPU_MEMORY_MIB_MAX) if requirement.values else None
    return 0 if bound is None else bound + 1


def _need(pod: Pod, least: int) -> str:
    """What the pod's author wrote, if the webhook wrote the requirement, else the requirement."""
    for amount in pod.gpu_memory.values():
        if gpu_memory.least_mib(amount) == least:
            return f"the pod requests {format_value(well_known.MEMORY, amount)}"
    floor = pod.memory_floor
    if floor and gpu_memory.least_mib(floor) == least:
        return f"the pod's {well_known.MEMORY_FLOOR} is {format_value(well_known.MEMORY, floor)}"
    return f"the pod needs {gpu_memory.in_gib(least)}: {least} MiB"


@lru_cache(maxsize=1024)
def _label_too_small(have: int, need: str) -> Reasons:
    if have:
        shown = gpu_memory.in_gib(have)
        text = f"node(s) whose {well_known.GPU_MEMORY} is {have} MiB ({shown}; {need})"
        return (Reason(code=GPU_MEMORY_TOO_SMALL, text=text, resolvable=False),)
    text = f"node(s) without the label {well_known.GPU_MEMORY} ({need})"
    return (Reason(code=GPU_MEMORY_UNKNOWN, text=text, resolvable=False),)


PLUGIN: Final = Plugin(
    name="GPUMemory",
    skips_plain=True,
    reads=(
        pod_reads.CONSTRAINTS,
        pod_reads.REQUESTS,
    ),
    codes=(
        GPU_MEMORY_TOO_SMALL,
        GPU_MEMORY_UNKNOWN,
    ),
    filters=(
        ClassFilter(check_label),
        NodeFilter(check_share),
    ),
)
