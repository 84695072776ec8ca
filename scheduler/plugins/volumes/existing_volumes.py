"""Where a pod with GPUs gets existing volumes for its unbound claims, instead of new, empty ones.

kube-scheduler's score of storage does not tell these apart. Pods without GPUs have that score only.
"""

from __future__ import annotations

from typing import Final

from scheduler.framework.plugin import DataNodes, Refuse
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.well_known import HOSTNAME
from scheduler.plugins.volumes.node_plan import VolumePlanner
from scheduler.plugins.volumes.pod_claims import claims_of
from scheduler.state.node_info import NodeInfo
from scheduler.state.volumes.volume_index import hosts_of

#: Hosts with existing volumes that are looked up; the index finds further ones in its own order.
HOSTS_MAX: Final = 256


def data_nodes(view: View, pod: Pod) -> DataNodes | None:
    """The nodes with existing volumes; None if the pod gets the same everywhere."""
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
    if not has_volumes:
        return None

    def given(node_info: NodeInfo) -> int:
        assert node_info.node is not None
        return len(planner.on_node(node_info.node).given)

    return DataNodes(given, _nodes(view, planner))


def _nodes(view: View, planner: VolumePlanner) -> frozenset[str]:
    """The nodes that alone have a volume for one of the claims, if these are few."""
    hosts: set[str] = set()
    for one in planner.candidates:
        hosts.update(view.volumes.index.hosts(one.claim.class_name))
        for volume in one.promised:
            hosts.update(hosts_of(volume) or ())
    if not 0 < len(hosts) <= HOSTS_MAX:
        return frozenset()
    return frozenset(view.topology.nodes_with(HOSTNAME, hosts))
