"""Prefers nodes that hold the data of a pod, among nodes that fit its GPUs equally well.

A node holds data of a pod if its label names a data set of the pod's annotation, and, for a pod
with GPUs, if an unbound claim would get an existing volume there instead of a new, empty one. The
volumes of bound claims are no preference: their node affinity is a filter (``volumes``).

Must never: be compared before the devices, so that a pod with data does not break up free GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import SCORE_MAX, DataNodes, NormalizedScore, Plugin, Refuse
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.well_known import HOSTNAME
from scheduler.plugins.volumes.node_plan import VolumePlanner
from scheduler.plugins.volumes.pod_claims import claims_of
from scheduler.state.node_info import NodeInfo
from scheduler.state.volumes.volume_index import hosts_of

#: Hosts with existing volumes that are looked up; the index finds further ones in its own order.
HOSTS_MAX: Final = 256
#: More than all scores of kube-scheduler together that are no preference of the pod, and less than
#: one step of what a pod with ResourceClaims loses (``dynamic_resources``).
WEIGHT: Final = 7


def data_nodes(view: View, pod: Pod) -> DataNodes | None:
    """Where the pod has data; None if that makes no difference between nodes."""
    names = frozenset(pod.data_names)
    planner = _planner(view, pod)
    if not names and planner is None:
        return None

    def score(node_info: NodeInfo) -> int:
        node = node_info.node
        assert node is not None
        held = int(node.labels.get(well_known.DATA) in names)
        return held if planner is None else held + len(planner.on_node(node).given)

    return DataNodes(score, frozenset() if planner is None else _hosts(view, planner))


def _planner(view: View, pod: Pod) -> VolumePlanner | None:
    """What the unbound claims get on each node, where existing volumes are among it."""
    if not pod.volumes.claims or not pod.gpu_requests:
        return None
    claims = claims_of(view, pod)
    if isinstance(claims, Refuse) or not claims.delayed:
        return None
    planner = VolumePlanner(view.volumes, claims)
    has_volumes = any(
        one.promised or one.anywhere or view.volumes.index.hosts(one.claim.class_name)
        for one in planner.candidates
    )
    return planner if has_volumes else None


def _hosts(view: View, planner: VolumePlanner) -> frozenset[str]:
    """The nodes that alone have a volume for one of the claims, if these are few."""
    hosts: set[str] = set()
    for one in planner.candidates:
        hosts.update(view.volumes.index.hosts(one.claim.class_name))
        for volume in one.promised:
            hosts.update(hosts_of(volume) or ())
    if len(hosts) > HOSTS_MAX:
        return frozenset()
    return frozenset(view.topology.nodes_with(HOSTNAME, hosts)) if hosts else frozenset()


def score(_view: View, pod: Pod, nodes: Sequence[NodeInfo], _settings: Settings) -> list[int]:
    """For a pod without GPUs: whether the label of each node names data of the pod."""
    names = pod.data_names
    if not names:
        return [0] * len(nodes)
    labels = (one.node.labels if one.node is not None else {} for one in nodes)
    return [SCORE_MAX * (found.get(well_known.DATA) in names) for found in labels]


PLUGIN: Final = Plugin(
    name="DataLocality",
    skips_plain=True,
    reads=(pod_reads.CONSTRAINTS, pod_reads.VOLUMES),
    data_nodes=data_nodes,
    normalized_scores=(
        NormalizedScore(weight=WEIGHT, score=score, is_preference=False, is_of_node=True),
    ),
)
