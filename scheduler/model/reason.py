"""Why a node, or the whole cluster, says no.

A reason is a value: a stable code, a sentence that can be counted (kube-scheduler's words,
so that people's greps keep working), numbers, and the causes that could lift it. The
table of codes below is the only one; ``docs/reasons.md`` is generated from it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

import msgspec

from scheduler.model.quantity import format_value


class Cause(enum.Enum):
    """What would have to change in the cluster before a retry can help."""

    POD = "the pod itself changed"
    FREED = "a pod that held something on a node went away"
    NODE = "a node appeared, or its labels, taints or allocatable changed"
    NAMESPACE = "a namespace's labels or annotations changed"
    DEVICES = "which devices a pod holds became known"
    OWNER = "a pod of the same owner went away"


class Code(enum.Enum):
    """Every rejection the scheduler can give: code -> (meaning, causes that lift it)."""

    NODE_UNSCHEDULABLE = ("the node is cordoned", (Cause.NODE, Cause.POD))
    TAINT = ("the node has a taint that the pod does not tolerate", (Cause.NODE, Cause.POD))
    AFFINITY = ("node selector or required node affinity", (Cause.NODE, Cause.POD))
    PORTS = ("a host port of the pod is taken", (Cause.FREED, Cause.NODE))
    TOO_MANY_PODS = ("the node's pod limit is reached", (Cause.FREED, Cause.NODE))
    INSUFFICIENT = ("not enough of a resource is free", (Cause.FREED, Cause.NODE))
    NODE_COUNTS_DEVICES = (
        "on this node the kubelet picks the GPU, so mapped and counted GPU pods cannot mix",
        (Cause.FREED, Cause.NODE),
    )
    DEVICE_HELD = ("a mapped device is held by a pod that does not share it", (Cause.FREED,))
    DEVICE_NOT_FOUND = ("the map names a device the node does not have", (Cause.NODE, Cause.POD))
    DEVICES_UNKNOWN = (
        "a pod on the node holds GPUs whose numbers are not known yet",
        (Cause.FREED, Cause.DEVICES, Cause.NODE),
    )
    NOT_IN_MAP = ("the map names another node for this pod", (Cause.NODE, Cause.POD))
    MAP_INVALID = ("the map cannot be read", (Cause.POD,))
    MAP_NOT_ALLOWED = ("the namespace may not use maps", (Cause.NAMESPACE,))
    MAP_NODE_UNKNOWN = ("no node has the name or label that the map gives", (Cause.NODE,))
    MAP_NODE_AMBIGUOUS = ("the map's node name fits several nodes", (Cause.NODE,))
    MAP_CHANGED = ("the map changed after the devices were written into the pod", (Cause.POD,))
    INDEX_UNKNOWN = ("the pod's index cannot be told", (Cause.POD,))
    INDEX_NOT_IN_MAP = ("the map has no line for the pod's index", (Cause.POD,))
    INDEX_HELD = ("another live pod of the same owner holds the index", (Cause.OWNER,))
    INDEX_HELD_BY_OLDER_REVISION = (
        "all indexes are held by pods of an older revision",
        (Cause.OWNER,),
    )
    SHARES_MISMATCH = ("the containers' GPU requests do not add up to the map", (Cause.POD,))
    NO_VALUE_FOR_ENV = (
        "a container reads its devices from an annotation that would stay empty",
        (Cause.POD, Cause.NODE),
    )
    UNSUPPORTED = ("the pod uses a field that this scheduler does not implement", (Cause.POD,))
    NO_NODES = ("the cluster has no nodes", (Cause.NODE,))

    @property
    def meaning(self) -> str:
        """One clause for people who read the table."""
        meaning: str = self.value[0]
        return meaning

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The kinds of change after which a retry may succeed."""
        causes: tuple[Cause, ...] = self.value[1]
        return causes


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One "no" of one node.

    ``text`` is what the histogram counts; ``need`` and ``have`` are its numbers in the
    resource's base unit (milli for cpu, whole units otherwise), for the resource
    ``resource``; ``resolvable`` is False where removing pods could not help
    (kube-scheduler's UnschedulableAndUnresolvable).
    """

    code: Code
    text: str
    resource: str = ""
    need: int = 0
    have: int = 0
    resolvable: bool = True


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Why no node was good enough.

    ``nodes`` maps a node name to its reasons. ``general`` is set instead where the pod
    failed before any node was looked at (kube-scheduler's PreFilter).
    """

    total: int
    nodes: Mapping[str, tuple[Reason, ...]] = {}
    general: Reason | None = None

    def codes(self) -> frozenset[Code]:
        """All codes that took part in the "no"."""
        if self.general is not None:
            return frozenset((self.general.code,))
        return frozenset(reason.code for reasons in self.nodes.values() for reason in reasons)

    def causes(self) -> frozenset[Cause]:
        """The kinds of change that could make a retry succeed."""
        return frozenset(cause for code in self.codes() for cause in code.causes)

    def lacking(self) -> frozenset[str]:
        """The resources of which some node that passed all else had too little."""
        return frozenset(
            reason.resource
            for reasons in self.nodes.values()
            for reason in reasons
            if reason.code is Code.INSUFFICIENT
        )


def histogram(reasons: Iterable[str]) -> str:
    """Count equal sentences and join them as kube-scheduler does: sorted as strings.

    >>> histogram(["b", "a", "b"])
    '1 a, 2 b'
    """
    counts: dict[str, int] = {}
    for text in reasons:
        counts[text] = counts.get(text, 0) + 1
    return ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))


def sentence(diagnosis: Diagnosis) -> str:
    """kube-scheduler's FitError text, with our numbers in brackets behind a reason.

    Same as ``pkg/scheduler/framework/types.go`` FitError.Error; the numbers never hold a
    comma, because readers cut the list at commas.
    """
    head = f"0/{diagnosis.total} nodes are available"
    general = diagnosis.general
    if general is not None and general.code is not Code.NO_NODES:
        return f"{head}: {general.text}."
    if diagnosis.total == 0:
        return "no nodes available to schedule pods"
    flat = [reason for reasons in diagnosis.nodes.values() for reason in reasons]
    best: dict[str, Reason] = {}
    for reason in flat:
        known = best.get(reason.text)
        if known is None or reason.have > known.have:
            best[reason.text] = reason
    body = histogram(_with_numbers(best[reason.text]) for reason in flat)
    return f"{head}: {body}." if body else f"{head}:"


def _with_numbers(best: Reason) -> str:
    if not best.resource or best.need == 0:
        return best.text
    need = format_value(best.resource, best.need)
    have = format_value(best.resource, max(best.have, 0))
    return f"{best.text} (need {need}; best node has {have} free)"
