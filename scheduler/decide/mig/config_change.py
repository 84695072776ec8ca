"""Selects a node whose MIG configuration mig-manager could change, for a pod without an instance.

mig-manager changes all GPUs of a node at once, as the label ``nvidia.com/mig.config`` says, and
fails if a process uses one of them. So a node qualifies only if all its GPUs are idle. It must also
offer whole GPUs: an existing MIG partition is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler.framework.pipeline import Pipeline, first_rejection
from scheduler.model import well_known
from scheduler.model.mig import layout
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.plugins import node_avoidance
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import NodeInfo


class MigConfigChange(msgspec.Struct, frozen=True):
    """Partition all GPUs of a node into instances of one profile."""

    node_name: str
    config: str


def idle_nodes(cluster: Cluster, in_backoff: frozenset[str] = frozenset()) -> list[NodeInfo]:
    """Nodes whose MIG configuration may change, for any pod; nodes in backoff (``in_backoff``) are
    excluded.
    """
    return [
        node_info
        for node_info in cluster.candidates()
        if node_info.node is not None
        and node_info.node.name not in in_backoff
        and _is_managed(node_info.node)
        and is_idle(node_info)
    ]


def candidate(idle: Sequence[NodeInfo], pod: Pod, pipeline: Pipeline) -> MigConfigChange | None:
    """The node with the fewest GPUs that would fit a pod; the name decides among equals."""
    profiles = instance_search.wanted(pod)
    if not profiles or len(pod.gpu_requests) != 1 or pod.map_text is not None:
        return None
    able = [
        node_info.node
        for node_info in idle
        if node_info.node is not None
        and _room(node_info.node, profiles[0]) >= len(profiles)
        and not first_rejection(
            pod, node_info, (*pipeline.points(pod).class_filters, node_avoidance.check)
        )
    ]
    if not able:
        return None
    node = min(able, key=lambda one: (one.gpu_count or 0, one.name))
    return MigConfigChange(node.name, "all-" + profiles[0].replace("+", "."))


def pods_on(node: Node, pod: Pod) -> int:
    """The number of such pods that fit on a node after the change for one of them."""
    profiles = instance_search.wanted(pod)
    return _room(node, profiles[0]) // len(profiles) if profiles else 0


def is_idle(node_info: NodeInfo) -> bool:
    """Whether no pod, of any scheduler, holds a GPU of the node or a part of one."""
    usage = node_info.usage
    holds = usage.holders or usage.unknown or usage.holds_plugin_devices
    return not holds and not node_info.mapped_past_plugin


def _is_managed(node: Node) -> bool:
    is_managed = node.labels.get(well_known.MIG_MANAGER) == "true"
    return is_managed and not (node.dynamic_mig is not None or node.single_profile or node.mig_hold)


def _room(node: Node, profile: str) -> int:
    """The number of instances on the node after the change."""
    gpu_model = layout.GPU_MODELS.get(node.geometry.gpu_model)
    known = layout.profile_of(gpu_model, profile) if gpu_model is not None else None
    return (node.gpu_count or 0) * known.max_count if known is not None else 0
