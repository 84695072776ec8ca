"""What the webhook tells the author of a pod that does not get what it requests. Pure."""

from __future__ import annotations

from scheduler.decide.admission.fallback_policy import FallbackPolicy
from scheduler.decide.admission.tier_selection import NoTier, TierGranted
from scheduler.decide.impossible_request import impossible_in_cluster
from scheduler.model import granted_tier, well_known
from scheduler.model.mig.node_geometry import memory_mib
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import IMPOSSIBLE
from scheduler.state.cache.cluster import Cluster


def granted_instead(
    cluster: Cluster, pod: Pod, found: TierGranted, policy: FallbackPolicy, *, restores: bool
) -> str:
    """What the pod has instead of its request; empty if it has that."""
    candidate = found.candidate
    if candidate.changes:
        asked, given = zip(*candidate.changes, strict=True)
        return granted_tier.stepped_down(pod, asked, dict.fromkeys(given), restores=restores)
    whole = (
        policy.memory[container]
        for container, resource in candidate.added
        if resource == well_known.GPU
    )
    node_info = cluster.nodes.at(found.placement.node_name)
    labels = node_info.node.labels if node_info is not None and node_info.node is not None else {}
    return granted_tier.whole_gpu(max(whole, default=0), memory_mib(labels))


def impossible_tier(cluster: Cluster, found: NoTier) -> str:
    """Why the tier that the pod waits for is on no present node, even if that were empty."""
    if found.candidate is None or found.is_unknown:
        return ""
    problem = impossible_in_cluster(found.candidate.pod, cluster.nodes.offers)
    return f"the pod {IMPOSSIBLE}{problem.text}" if problem is not None else ""
