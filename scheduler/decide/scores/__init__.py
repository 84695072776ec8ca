"""Scores: which of the feasible nodes is best; smaller is better, compared as a tuple.

In this order (design 6): the pod's soft preferences, then what its MIG instances cost later
(nothing where they are there already), then the fewest leftovers on the node, then the node's
name, so that equal inputs always give the same node.
"""

from __future__ import annotations

from scheduler.decide.mig.instance_plan import NONE, Effort, effort
from scheduler.decide.scores import leftover, preference
from scheduler.model.pod import Pod
from scheduler.state.node_info import NodeInfo

Score = tuple[int, Effort, tuple[int, int, int], str]


def score(pod: Pod, node_info: NodeInfo, *, spread: bool) -> Score:
    """The sort key of one feasible node."""
    assert node_info.node is not None
    devices, others, cpu = leftover.measure(pod, node_info)
    if spread and pod.gpu_requests:
        devices, others = -devices, -others
    # Whoever asks for no device keeps away from devices, packed or spread.
    ordered = (devices, others, -cpu if spread else cpu)
    cut = effort(pod, node_info) if node_info.is_dynamic else NONE
    return (preference.dislike(pod, node_info.node), cut, ordered, node_info.node.name)
