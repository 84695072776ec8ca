"""Instances that are cut to order: one pod's must all find room at once, on GPUs that do not rest.

A part of ``fit``, which then says whether each profile alone has room.
"""

from __future__ import annotations

from scheduler.decide import joint
from scheduler.model.pod import Pod
from scheduler.model.reason import Code, Reason
from scheduler.state import cutting
from scheduler.state.ledger import NodeBooks

NOT_TOGETHER = Reason(
    code=Code.NO_ROOM_TOGETHER,
    text="node(s) where the pod's MIG instances fit one by one but not together",
)
RESTS = Reason(
    code=Code.GPU_RESTS, text="node(s) where GPUs with room rest after a MIG instance was not cut"
)


def check(pod: Pod, books: NodeBooks) -> tuple[Reason, ...]:
    """Reject a node on whose GPUs the pod's instances cannot be placed beside each other."""
    gpus = books.gpus
    if gpus is None or not pod.gpu_requests:
        return ()
    profiles = joint.wanted(pod)
    if not profiles or joint.choose(gpus, profiles) is not None:
        return ()
    if books.resting and _fits_without_rest(books, profiles):
        return (RESTS,)
    is_each = all(books.free(resource) >= n for resource, n in pod.gpu_requests.items())
    return (NOT_TOGETHER,) if is_each else ()


def _fits_without_rest(books: NodeBooks, profiles: tuple[str, ...]) -> bool:
    assert books.node is not None
    assert books.node.cuttable is not None
    awake = cutting.count(
        books.node.cuttable, books.pods.values(), books.cuts, books.node.failed_gpus
    )
    return joint.choose(awake, profiles) is not None
