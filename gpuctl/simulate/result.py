"""The result of one pod: the simulator's record, and the row of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.model.gpu.device import format_devices
from scheduler.model.granted_tier import STEPPED_DOWN
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import IMPOSSIBLE, Diagnosis, filter_sentence

PLACED: Final = "placed"
WAITS: Final = "waits"
REFUSED: Final = "refused"
STATES: Final = (PLACED, WAITS, REFUSED)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """``pod`` is the admitted pod, ``asked`` its GPU requests before admission.

    ``node`` is None while the pod is pending; ``reason`` explains that, or the placement. ``codes``
    are the reason codes of a pod that no node takes. A refused pod does not exist: admission, a
    quota or a limit range refused it.
    """

    pod: Pod
    asked: Mapping[str, int]
    node: str | None = None
    devices: str | None = None
    cuda: str | None = None
    granted: Mapping[str, int] = {}
    reason: str = ""
    codes: tuple[str, ...] = ()
    warnings: Sequence[str] = ()
    is_refused: bool = False

    @property
    def state(self) -> str:
        """One of the STATES."""
        if self.is_refused:
            return REFUSED
        return WAITS if self.node is None else PLACED


class Row(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One line of the output; the JSON form is a contract. ``state`` is one of the STATES."""

    namespace: str
    pod: str
    node: str | None
    devices: str | None
    cuda_visible_devices: str | None
    requested: Mapping[str, int]
    granted: Mapping[str, int]
    reason: str | None
    state: str


def granted_verdict(verdict: Verdict, placement: Placement, *notes: str) -> Verdict:
    """The verdict of a placed pod; its reason lists a fallback, GPU memory and the notes."""
    pod = verdict.pod
    noted = [text for _, text in placement.notes]
    # The row of a fallback has its own sentence.
    reasons = [text for reason, text in placement.notes if reason != STEPPED_DOWN]
    fallback = pod.annotations.get(well_known.FALLBACK)
    if fallback is not None:
        asked, _, granted = fallback.partition("->")
        reasons.insert(0, f"{asked} not available, fell back to {granted}")
    memory = pod.annotations.get(well_known.MEMORY_GIVEN)
    if memory is not None:
        reasons.insert(0, f"for its GPU memory: {memory}")
    return msgspec.structs.replace(
        verdict,
        node=placement.node_name,
        devices=format_devices(placement.devices) or None,
        cuda=visible_devices(pod, placement.cuda_visible_devices),
        granted=pod.gpu_requests,
        reason="; ".join([*reasons, *notes]),
        codes=(),
        warnings=[text for text in verdict.warnings if text not in noted],
    )


def waiting_verdict(verdict: Verdict, diagnosis: Diagnosis) -> Verdict:
    """The verdict of a pod that no node takes."""
    codes = tuple(sorted(code.name for code in diagnosis.codes()))
    reason = filter_sentence(diagnosis)
    warnings = verdict.warnings
    if IMPOSSIBLE in reason:  # admission may have warned of the same
        warnings = [text for text in warnings if IMPOSSIBLE not in text]
    return msgspec.structs.replace(verdict, reason=reason, codes=codes, warnings=warnings)


def visible_devices(pod: Pod, annotation: str | None) -> str | None:
    """CUDA_VISIBLE_DEVICES of the pod's containers, or None if no container has it.

    If the containers differ, each has a part of the annotation's devices.
    """
    literals = {c.cuda_literal for c in pod.containers if c.cuda_literal is not None}
    reads = any(c.cuda_key is not None for c in pod.containers)
    if len(literals) == 1 and not reads:
        return literals.pop()
    return annotation if literals or reads else None


def to_row(verdict: Verdict) -> Row:
    """The output row of a verdict."""
    return Row(
        namespace=verdict.pod.namespace,
        pod=verdict.pod.name,
        node=verdict.node,
        devices=verdict.devices,
        cuda_visible_devices=verdict.cuda,
        requested=verdict.asked,
        granted=verdict.granted,
        state=verdict.state,
        reason="; ".join(_parts(verdict)) or None,
    )


def _parts(verdict: Verdict) -> list[str]:
    """The sentences of the reason; only the last may end with a full stop."""
    *before, last = [text for text in (verdict.reason, *verdict.warnings) if text] or [""]
    return [text for text in (*(text.removesuffix(".") for text in before), last) if text]
