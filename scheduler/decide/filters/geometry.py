"""Instances that are cut to order: one pod's must all find room at once.

That each of them alone does is ``fit``'s to say: what a node has left counts room there.
"""

from __future__ import annotations

from scheduler.decide import joint
from scheduler.model.pod import Pod
from scheduler.model.reason import Code, Reason
from scheduler.state.ledger import NodeBooks

NOT_TOGETHER = Reason(
    code=Code.NO_ROOM_TOGETHER,
    text="node(s) where the pod's MIG instances fit one by one but not together",
)


def check(pod: Pod, books: NodeBooks) -> tuple[Reason, ...]:
    """Reject a node on whose GPUs the pod's instances cannot be placed beside each other."""
    gpus = books.gpus
    if gpus is None or not pod.gpu_requests:
        return ()
    profiles = joint.wanted(pod)
    if len(profiles) < 2 or joint.choose(gpus, profiles) is not None:
        return ()
    return (NOT_TOGETHER,)
