"""Rejects pods that this scheduler cannot decode, or whose fields it does not implement.

The reason names the field; the field is never ignored silently.
"""

from __future__ import annotations

from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import Plugin, Refuse
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause

UNREADABLE = ReasonCode(
    name="UNREADABLE",
    meaning="a field of the pod is invalid or exceeds its limit (docs/limits.md)",
    lifted_by=(RequeueCause.POD,),
    stage="Pod",
    next_step=(
        "correct the field that the message names in the pod template; limits: docs/limits.md"
    ),
    words=(r"unreadable: ",),
    condition=ConditionReason.UNREADABLE_POD,
)
UNSUPPORTED = ReasonCode(
    name="UNSUPPORTED",
    meaning="the pod uses a field that this scheduler does not implement",
    lifted_by=(RequeueCause.POD,),
    stage="Pod",
    next_step="remove the field from the pod, or use another scheduler",
    words=(r"unsupported: ",),
    condition=ConditionReason.UNSUPPORTED_FIELD,
)


def pre_filter(_view: View, pod: Pod, _settings: Settings) -> Refuse | None:
    """Reject a pod with a field that cannot be decoded or is not implemented."""
    if pod.problem:
        return _refuse(UNREADABLE, f"unreadable: {pod.problem}")
    if pod.unsupported:
        fields = " and ".join(pod.unsupported)
        return _refuse(
            UNSUPPORTED, f"unsupported: {fields} (gpu-scheduler does not implement this yet)"
        )
    return None


def _refuse(code: ReasonCode, text: str) -> Refuse:
    return Refuse(Reason(code=code, text=text, resolvable=False))


PLUGIN: Final = Plugin(
    name="PodSupported",
    reads=(pod_reads.READABLE,),
    codes=(UNREADABLE, UNSUPPORTED),
    pre_filter=pre_filter,
)
