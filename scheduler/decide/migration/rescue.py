"""Whether a pending pod would get another tier if it were admitted now.

The tier is chosen at admission and cannot change afterwards, while the free capacity does. If an
admission would now choose another tier, a replacement of the pod would run.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.decide.admission.fallback_candidates import options
from scheduler.decide.admission.fallback_policy import FallbackPolicy
from scheduler.decide.admission.tier_selection import TierGranted, choose_tier, is_degradable
from scheduler.decide.migration.restore import MigrationCandidate, Waiting, let_in
from scheduler.framework.pipeline import Pipeline
from scheduler.model.crd.migration import MigrationKind
from scheduler.model.pods.original_request import as_asked, unplaced
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reservations import Reservations


def rescuable(
    cluster: Cluster,
    promises: Reservations,
    waiting: Waiting,
    pod: Pod,
    terms: FallbackPolicy,
    pipeline: Pipeline,
) -> MigrationCandidate | None:
    """The possible rescue of a pending pod; ``terms`` are those of ``asked(pod)``."""
    if not is_degradable(pod):
        return None
    wanted = asked(pod)
    held = [one for one in promises.holders(pod.priority) if one.pod.uid != pod.uid]
    others = ((one for one in group if one.uid != pod.uid) for group in waiting)
    admitted = let_in(promises, pod)
    if cluster.quotas.refusal(wanted, admitted) is not None:
        return None  # a quota would reject the replacement
    tries = options(cluster, wanted, terms, admitted)
    found = choose_tier(cluster, wanted, tries, held, others, pipeline)
    if not isinstance(found, TierGranted) or _is_same(found.pod, pod):
        return None
    return MigrationCandidate(MigrationKind.RESCUE, pod, found.pod, found.placement.node_name)


def asked(pod: Pod) -> Pod:
    """The pod as its owner would recreate it, and as its next admission would see it."""
    return as_asked(pod) or unplaced(pod)


def _is_same(wanted: Pod, pod: Pod) -> bool:
    return wanted.gpu_requests == pod.gpu_requests and wanted.node_selector == pod.node_selector


def candidates(groups: Waiting, each: int) -> Iterable[Pod]:
    """Pending pods, some of each group with the same request."""
    for group in groups:
        for count, pod in enumerate(group, 1):
            yield pod
            if count >= each:
                break
