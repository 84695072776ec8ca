"""Prefers nodes that have the pod's container images already (kube-scheduler: imagelocality).

For a pod with GPUs it only decides between nodes that are equal in everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from scheduler.framework.plugin import SCORE_MAX, NormalizedScore, Plugin
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.state.node_info import NodeInfo

_MIB: Final = 2**20
#: Images of less than this together score nothing, and more than so much per image scores no more.
LEAST_BYTES: Final = 23 * _MIB
MOST_BYTES: Final = 1000 * _MIB


def score_of(view: View, pod: Pod) -> Callable[[NodeInfo], int] | None:
    """The score of one node; None if no node has enough of the pod's images to score."""
    images = view.nodes.images
    if images.is_empty:
        return None
    count = len(view.nodes)
    # An image on few nodes counts less, so that these nodes do not attract every pod.
    found = [
        (one.bits, int(one.size * (one.nodes / count)))
        for name in pod.images
        for one in images.of(name)
    ]
    most = MOST_BYTES * len(pod.images)
    if _score(sum(size for _, size in found), most) == 0:
        return None

    def score(node_info: NodeInfo) -> int:
        assert node_info.node is not None
        bit = images.bit_of(node_info.node.name)
        return _score(sum(size for bits, size in found if bits & bit), most)

    return score


def _score(size: int, most: int) -> int:
    clamped = max(LEAST_BYTES, min(size, most))
    return SCORE_MAX * (clamped - LEAST_BYTES) // (most - LEAST_BYTES) if most else 0


def score(view: View, pod: Pod, nodes: Sequence[NodeInfo], _settings: Settings) -> list[int]:
    """The size of the pod's images on each node, scaled by the share of nodes that have them."""
    of_node = score_of(view, pod)
    return [0] * len(nodes) if of_node is None else [of_node(node_info) for node_info in nodes]


PLUGIN: Final = Plugin(
    name="ImageLocality",
    normalized_scores=(NormalizedScore(weight=1, score=score, is_preference=False),),
    tie_break=score_of,
)
