"""Whether a pending pod would get another tier if it were admitted now.

The tier is chosen at admission and cannot change afterwards, while the free capacity does. If an
admission would now choose another tier, a replacement of the pod would run. ResourceClaims need no
rescue: every decision tries all subrequests of ``firstAvailable``.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.decide.admission.fallback_candidates import options
from scheduler.decide.admission.fallback_policy import FallbackPolicy
from scheduler.decide.admission.tier_selection import TierGranted, choose_tier, is_degradable
from scheduler.decide.migration.claims import created_again
from scheduler.decide.migration.restore import MigrationCandidate, Waiting, admitted_pods
from scheduler.framework.pipeline import Pipeline
from scheduler.model.crd.migration import MigrationKind
from scheduler.model.pods.original_request import unplaced, with_original_request
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reservations import Reservations


def rescuable(
    cluster: Cluster,
    reservations: Reservations,
    waiting: Waiting,
    pod: Pod,
    policy: FallbackPolicy,
    pipeline: Pipeline,
) -> MigrationCandidate | None:
    """The possible rescue of a pending pod; ``policy`` are those of ``as_recreated(pod)``."""
    if not is_degradable(pod):
        return None
    wanted = as_recreated(pod)
    held = [one for one in reservations.holders(pod.priority) if one.pod.uid != pod.uid]
    others = ((one for one in group if one.uid != pod.uid) for group in waiting)
    admitted = admitted_pods(reservations, pod)
    if cluster.quotas.refusal(wanted, admitted) is not None:
        return None  # a quota would reject the replacement
    tries = options(cluster, wanted, policy, admitted)
    claims = created_again(cluster.dra, pod)
    found = choose_tier(cluster, wanted, tries, held, others, pipeline, claims=claims)
    if not isinstance(found, TierGranted) or _is_same(found.pod, pod):
        return None
    return MigrationCandidate(MigrationKind.RESCUE, pod, found.pod, found.placement.node_name)


def as_recreated(pod: Pod) -> Pod:
    """The pod as its owner would recreate it, and as its next admission would see it."""
    return with_original_request(pod) or unplaced(pod)


def _is_same(wanted: Pod, pod: Pod) -> bool:
    return wanted.gpu_requests == pod.gpu_requests and wanted.node_selector == pod.node_selector


def candidates(groups: Waiting, each: int) -> Iterable[Pod]:
    """Pending pods, some of each group with the same request."""
    for group in groups:
        for count, pod in enumerate(group, 1):
            yield pod
            if count >= each:
                break
