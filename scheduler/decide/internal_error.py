"""The rejection of a pod after an internal error; other pods are scheduled normally."""

from __future__ import annotations

from scheduler.framework.decision import Rejection
from scheduler.framework.reason_codes import INTERNAL
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis, Reason


def failure(view: View, pod: Pod, number: str) -> Rejection:
    """Reject the pod; the log has details under the id ``number``."""
    text = (
        f"internal error {number} of gpu-scheduler at this pod; the log has details under this id"
    )
    reason = Reason(code=INTERNAL, text=text, resolvable=False)
    return Rejection(pod=pod, diagnosis=Diagnosis(total=len(view.nodes), general=reason))
