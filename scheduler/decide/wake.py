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
        found = mapped.target(pod, view, profile)
        return why_of((found,)) if isinstance(found, Reason) else None
    books = view.at(node_name)
    reasons = first_rejection(pod, books) if books is not None else GONE
    return why_of(reasons) if reasons else None
