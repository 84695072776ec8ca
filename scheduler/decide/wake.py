"""Whether a change of one node helps a pod that was refused: asked before it is woken.

Must never: say no where a decision would now say yes, nor leave a reason out; that pod would
sleep on.
"""

from __future__ import annotations

from scheduler.decide import mapped
from scheduler.decide.filters import first_rejection
from scheduler.decide.view import Profile, View
from scheduler.decide.work import is_light
from scheduler.model.pod import Pod
from scheduler.model.podindex import IndexRule
from scheduler.model.reason import Code, Reason
from scheduler.state.why import Why, why_of

GONE = (Reason(code=Code.NO_NODES, text="the node is gone"),)


def still_refuses(view: View, profile: Profile, pod: Pod, node_name: str) -> Why | None:
    """What the pod would wait for at the named node by now; None where it may be taken.

    A pod that takes many steps is not compared at every change: it is tried after its pause.
    """
    if not is_light(pod):
        return None
    if pod.map_text is not None:
        return _still_refuses_line(view, profile, pod)
    books = view.at(node_name)
    reasons = first_rejection(pod, books) if books is not None else GONE
    return why_of(reasons) if reasons else None


def _still_refuses_line(view: View, profile: Profile, pod: Pod) -> Why | None:
    if pod.index() is IndexRule.ASSIGNED:
        return None  # any line may be the one, and to try them costs no less than a decision
    found = mapped.lines(pod, view, profile)
    if isinstance(found, Reason):
        return why_of((found,))
    resolved = mapped.target(pod, found.entries[0], view) if found.is_own else None
    return why_of((resolved,)) if isinstance(resolved, Reason) else None
