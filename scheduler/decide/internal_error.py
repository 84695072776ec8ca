"""The answer for a pod at which we failed ourselves: it waits, and the others go on."""

from __future__ import annotations

from scheduler.framework.decision import Rejection
from scheduler.framework.reason_codes import INTERNAL
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reason import Diagnosis, Reason


def failure(view: View, pod: Pod, number: str) -> Rejection:
    """``number`` is the id under which the log says more."""
    text = (
        f"internal error {number} of gpu-scheduler at this pod; the log has details under this id"
    )
    reason = Reason(code=INTERNAL, text=text, resolvable=False)
    return Rejection(pod=pod, diagnosis=Diagnosis(total=len(view.nodes), general=reason))
