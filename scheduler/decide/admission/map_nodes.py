"""What a review reads of the nodes in a pod's map: which component assigns the GPUs there, and
whether the pod has to request them.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model import well_known
from scheduler.model.admission import NodeAssignment
from scheduler.model.gpu.gpu_map import GpuMap, MapEntry, MapError, parse
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_index import IndexRule
from scheduler.state.cache.cluster import Cluster


def node_kinds(cluster: Cluster, pod: Pod) -> dict[str, NodeAssignment]:
    """For each node of the pod's map: its real name, and how its GPUs are assigned."""
    gpu_map = _map_of(pod)
    if gpu_map is None:
        return {}
    return {
        token: _kind(cluster, token) for token in {one.node for one in gpu_map.entries.values()}
    }


def map_request(pod: Pod, kinds: Mapping[str, NodeAssignment]) -> int:
    """The number of GPUs that a pod without any request gets by its map; 0 where its GPUs are not
    DRA devices, or where the number depends on the line.
    """
    gpu_map = _map_of(pod)
    if gpu_map is None or pod.node_name or pod.problem or _asks_for_devices(pod):
        return 0
    entries = _lines(pod, gpu_map)
    counts = {len(one.devices) for one in entries}
    if len(counts) != 1 or not all(kinds[one.node].dra for one in entries):
        return 0
    return counts.pop()


def _asks_for_devices(pod: Pod) -> bool:
    return bool(
        pod.gpu_requests
        or pod.resource_claims.claims
        or well_known.WANTED_MEMORY in pod.annotations
        or any(resource.startswith(well_known.DRA_PREFIX) for resource in pod.requests)
    )


def _lines(pod: Pod, gpu_map: GpuMap) -> tuple[MapEntry, ...]:
    """The lines that the pod may get."""
    index = pod.index(len(gpu_map.indexes))
    if index is IndexRule.ASSIGNED:
        return tuple(gpu_map.entries.values())
    if not isinstance(index, int) or index not in gpu_map.entries:
        return ()
    return (gpu_map.entries[index],)


def _map_of(pod: Pod) -> GpuMap | None:
    if pod.map_text is None:
        return None
    try:
        return parse(pod.map_text)
    except MapError:
        return None


def _kind(cluster: Cluster, token: str) -> NodeAssignment:
    found = cluster.resolve(token)
    if len(found) != 1:
        return NodeAssignment()
    node_info = cluster.nodes.node_info[next(iter(found))]
    node = node_info.node
    assert node is not None
    if node_info.dra_gpus is not None:
        return NodeAssignment(node.name, "counted", dra=True)
    return NodeAssignment(node.name, "numbered" if node.is_index_assigned else "counted")
