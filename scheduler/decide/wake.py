"""Whether a change of one node could help a pod that was refused: asked before it is woken.

Must never: say no where a decision would now say yes; that pod would sleep on.
"""

from __future__ import annotations

from scheduler.decide import mapped
from scheduler.decide.filters import first_rejection
from scheduler.decide.view import Profile, View
from scheduler.model.pod import Pod
from scheduler.model.reason import Reason


def could_help(view: View, profile: Profile, pod: Pod, node_name: str) -> bool:
    """Whether the named node, as it is now, takes the pod; or the pod's map leads somewhere."""
    if pod.map_text is not None:
        return not isinstance(mapped.target(pod, view, profile), Reason)
    books = view.at(node_name)
    return books is not None and not first_rejection(pod, books)
