"""Prefers nodes whose label names data of a pod, among nodes that fit its GPUs equally well.

Existing volumes for the claims of a pod are data too (``volumes/existing_volumes``). The volumes of
bound claims are no preference: their node affinity is a filter.

Must never: be compared before the devices, so that a pod with data does not break up free GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import SCORE_MAX, DataNodes, NormalizedScore, Plugin
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.state.node_info import NodeInfo

#: More than all scores of kube-scheduler together that are no preference of the pod, and less than
#: one step of what a pod with ResourceClaims loses (``dynamic_resources``).
WEIGHT: Final = 7


def data_nodes(_view: View, pod: Pod) -> DataNodes | None:
    """The nodes with a data set of the pod's annotation."""
    names = pod.data_names

    def held(node_info: NodeInfo) -> int:
        assert node_info.node is not None
        return int(node_info.node.labels.get(well_known.DATA) in names)

    return DataNodes(held) if names else None


def score(view: View, pod: Pod, nodes: Sequence[NodeInfo], _settings: Settings) -> list[int]:
    """The same as a score, for a pod without GPUs."""
    found = data_nodes(view, pod) if pod.data_names else None
    return [0 if found is None else SCORE_MAX * found.score(one) for one in nodes]


PLUGIN: Final = Plugin(
    name="DataLocality",
    skips_plain=True,
    reads=(pod_reads.CONSTRAINTS,),
    data_nodes=data_nodes,
    normalized_scores=(
        NormalizedScore(weight=WEIGHT, score=score, is_preference=False, is_of_node=True),
    ),
)
