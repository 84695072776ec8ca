"""Whether a change of one node helps a pod that was refused: asked before it is woken.

Must never: say no where a decision would now say yes, nor leave a reason out; that pod would
sleep on.
"""

from __future__ import annotations

from scheduler.decide import gpu_map
from scheduler.decide.budget import is_light
from scheduler.decide.filters import first_rejection
from scheduler.decide.view import Profile, View
from scheduler.model.pod import Pod
from scheduler.model.pod_index import IndexRule
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.queue.requeue_conditions import RequeueCondition, why_of

GONE = (Reason(code=ReasonCode.NO_NODES, text="the node is gone"),)


def still_refuses(
    view: View, profile: Profile, pod: Pod, node_name: str
) -> RequeueCondition | None:
    """What the pod would wait for at the named node by now; None where it may be taken.

    A pod that takes many steps is not compared at every change: it is tried after its pause.
    """
    if not is_light(pod):
        return None
    if pod.map_text is not None:
        return _still_refuses_line(view, profile, pod)
    node_info = view.at(node_name)
    reasons = first_rejection(pod, node_info) if node_info is not None else GONE
    return why_of(reasons) if reasons else None


def _still_refuses_line(view: View, profile: Profile, pod: Pod) -> RequeueCondition | None:
    if pod.index() is IndexRule.ASSIGNED:
        return None  # any line may be the one, and to try them costs no less than a decision
    found = gpu_map.lines(pod, view, profile)
    if isinstance(found, Reason):
        return why_of((found,))
    resolved = gpu_map.target(pod, found.entries[0], view) if found.is_own else None
    return why_of((resolved,)) if isinstance(resolved, Reason) else None
