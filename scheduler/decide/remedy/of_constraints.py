"""The same pod without the constraint that nodes do not meet, or a node without the taint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from scheduler.decide.remedy.edit import Edit, EditKind, Trial
from scheduler.decide.remedy.rejected import RejectedPod
from scheduler.model import well_known
from scheduler.model.gpu.gpu_memory import least_mib
from scheduler.model.mig.node_geometry import memory_mib
from scheduler.model.pods.pod import Pod
from scheduler.model.selector import CORDON, Requirement, Taint, Term, Toleration, untolerated

#: Different sets of taints, selectors, labels, cordoned nodes and amounts of memory that are tried.
TRIED_MAX: Final = 4


def tolerate(rejected: RejectedPod) -> Iterator[Trial]:
    """The taints of the nodes that have untolerated ones; those of the most nodes first."""
    pod = rejected.pod
    counts: dict[tuple[Taint, ...], int] = {}
    for name in rejected.nodes_with("TAINT"):
        node_info = rejected.view.at(name)
        if node_info is None or node_info.node is None:
            continue
        taints = tuple(
            one for one in node_info.node.taints if untolerated((one,), pod.tolerations) is not None
        )
        if taints and not any(one.is_of_condition for one in taints):
            counts[taints] = counts.get(taints, 0) + 1
    for taints in sorted(counts, key=lambda one: (-counts[one], len(one)))[:TRIED_MAX]:
        yield Trial(tuple(map(_toleration, taints)), _tolerating(pod, taints))


def _toleration(taint: Taint) -> Edit:
    pair = f"{taint.key}={taint.value}" if taint.value else taint.key
    value, text = f"{taint.value}:{taint.effect}", f"tolerate {pair}:{taint.effect}"
    return Edit(kind=EditKind.TOLERATE, field=taint.key, value=value, text=text)


def _tolerating(pod: Pod, taints: Sequence[Taint]) -> Pod:
    more = (Toleration(one.key, "Equal", one.value, one.effect) for one in taints)
    return msgspec.structs.replace(pod, tolerations=(*pod.tolerations, *more))


def uncordon(rejected: RejectedPod) -> Iterator[Trial]:
    """A cordoned node, tried as a pod that tolerates the cordon and may use only this node."""
    pod = rejected.pod
    tolerating = _tolerating(pod, (CORDON,))
    for name in rejected.nodes_with("NODE_UNSCHEDULABLE")[:TRIED_MAX]:
        there = Requirement("metadata.name", "In", (name,))
        terms = tuple(
            Term(one.match_expressions, (*one.match_fields, there))
            for one in pod.required_terms or (Term(),)
        )
        text = f"kubectl uncordon {name}"
        edit = Edit(kind=EditKind.UNCORDON, field=name, text=text)
        yield Trial((edit,), msgspec.structs.replace(tolerating, required_terms=terms))


def select_less(rejected: RejectedPod) -> Iterator[Trial]:
    """Each label of the node selector, the required affinity, then both."""
    pod = rejected.pod
    if well_known.WANTED_MEMORY in pod.annotations:
        yield from less_memory(rejected)  # the webhook writes the affinity
        return
    selector = pod.node_selector
    edits = [_unselected(key, value) for key, value in sorted(selector.items())][:TRIED_MAX]
    for edit in edits:
        rest = {key: value for key, value in selector.items() if key != edit.field}
        yield Trial((edit,), msgspec.structs.replace(pod, node_selector=rest))
    if pod.required_terms is not None:
        path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        required = Edit(kind=EditKind.REMOVE, field=path, text="remove the required node affinity")
        yield Trial((required,), msgspec.structs.replace(pod, required_terms=None))
        edits.append(required)
    if len(edits) > 1 and len(selector) <= TRIED_MAX:
        free = msgspec.structs.replace(pod, node_selector={}, required_terms=None)
        yield Trial(tuple(edits), free)


def _unselected(key: str, value: str) -> Edit:
    text = f"remove {key}={value} from the nodeSelector"
    return Edit(kind=EditKind.SELECTOR, field=key, value=value, text=text)


def less_memory(rejected: RejectedPod) -> Iterator[Trial]:
    """The memory of the largest GPUs of the cluster, for a pod that asks for GPU memory."""
    pod = rejected.pod
    if well_known.WANTED_MEMORY not in pod.annotations or pod.required_terms is None:
        return
    nodes = (one.node for one in rejected.view.candidates())
    found = {memory_mib(node.labels) for node in nodes if node is not None}
    amounts = sorted({mib for mib in found if mib}, reverse=True)
    for mib in amounts[:TRIED_MAX]:
        gib = round(mib / 1024)  # a GPU of 81,559 MiB is one of 80Gi
        value = f"{gib}Gi"
        text = f"request {value} in {well_known.WANTED_MEMORY}"
        edit = Edit(kind=EditKind.ANNOTATE, field=well_known.WANTED_MEMORY, value=value, text=text)
        if gib:
            yield Trial((edit,), _with_memory(pod, value, least_mib(gib << 30)))


def _with_memory(pod: Pod, value: str, mib: int) -> Pod:
    """The pod as the webhook writes it for another amount of GPU memory."""
    terms = tuple(
        Term(
            tuple(
                Requirement(one.key, one.operator, (str(mib - 1),))
                if (one.key, one.operator) == (well_known.GPU_MEMORY, "Gt")
                else one
                for one in term.match_expressions
            ),
            term.match_fields,
        )
        for term in pod.required_terms or ()
    )
    annotations = {**pod.annotations, well_known.WANTED_MEMORY: value}
    return msgspec.structs.replace(pod, required_terms=terms, annotations=annotations)


def no_ports(rejected: RejectedPod) -> Iterator[Trial]:
    """The pod without host ports."""
    pod = rejected.pod
    ports = ", ".join(sorted({str(one.port) for one in pod.host_ports}))
    text = f"remove hostPort {ports}"
    edit = Edit(kind=EditKind.REMOVE, field="spec.containers[*].ports[*].hostPort", text=text)
    yield Trial((edit,), msgspec.structs.replace(pod, host_ports=()))


def without_affinity(rejected: RejectedPod) -> Iterator[Trial]:
    """The pod without its required affinity to other pods."""
    pod = rejected.pod
    yield _no_terms(pod, "podAffinity", msgspec.structs.replace(pod.affinity, required=()))


def without_anti_affinity(rejected: RejectedPod) -> Iterator[Trial]:
    """The pod without its required anti-affinity to other pods."""
    pod = rejected.pod
    yield _no_terms(pod, "podAntiAffinity", msgspec.structs.replace(pod.affinity, required_anti=()))


def _no_terms(pod: Pod, word: str, affinity: object) -> Trial:
    path = f"spec.affinity.{word}.requiredDuringSchedulingIgnoredDuringExecution"
    text = f"remove the required {word}, or make it preferred"
    edit = Edit(kind=EditKind.REMOVE, field=path, text=text)
    return Trial((edit,), msgspec.structs.replace(pod, affinity=affinity))


def without_label(rejected: RejectedPod) -> Iterator[Trial]:
    """The pod without one of its labels, which an anti-affinity of another pod selects."""
    pod = rejected.pod
    for key, value in sorted(pod.labels.items())[:TRIED_MAX]:
        rest = {one: text for one, text in pod.labels.items() if one != key}
        text = f"remove the label {key}={value} from the pod"
        edit = Edit(kind=EditKind.LABEL, field=key, value=value, text=text)
        yield Trial((edit,), msgspec.structs.replace(pod, labels=rest))


def spread_softly(rejected: RejectedPod) -> Iterator[Trial]:
    """The pod with spread constraints that nodes need not meet."""
    pod = rejected.pod
    soft = tuple(msgspec.structs.replace(one, is_hard=False) for one in pod.spread)
    value = "ScheduleAnyway"
    edit = Edit(
        kind=EditKind.SPREAD,
        field="spec.topologySpreadConstraints",
        value=value,
        text=f"set whenUnsatisfiable: {value} in topologySpreadConstraints",
    )
    yield Trial((edit,), msgspec.structs.replace(pod, spread=soft))


def without_fields(rejected: RejectedPod) -> Iterator[Trial]:
    """The pod without the fields that the scheduler does not implement."""
    pod = rejected.pod
    edits = tuple(
        Edit(kind=EditKind.REMOVE, field=one, text=f"remove {one}") for one in pod.unsupported
    )
    yield Trial(edits, msgspec.structs.replace(pod, unsupported=()))
