"""Whether the requested tier of a degraded pod is free beside all stronger pods.

The check equals that of an admission, with the same holders and the requested tier only. So a pod
is never evicted for a slice that its replacement would not get. Of a ResourceClaim the first
subrequest of ``firstAvailable`` is the requested tier.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.decide.admission.fallback_candidates import Candidate
from scheduler.decide.admission.tier_selection import TierGranted, choose_tier
from scheduler.decide.migration.claims import (
    DegradedClaims,
    Subrequests,
    degraded_claims,
    devices_of,
)
from scheduler.framework.pipeline import Pipeline
from scheduler.model import well_known
from scheduler.model.crd.migration import Migration, MigrationKind, match_of, name_of, profiles
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.dra.device import DeviceId
from scheduler.model.pods.original_request import unplaced, with_original_request
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reservations import Reservations
from scheduler.state.topology.reader import TopologyReader

Waiting = Iterable[Iterable[Pod]]
#: How long the capacity is held for a replacement, after the grace period of its pod.
HELD_S: Final = 60.0
#: Annotations that change the tier of a recreated pod.
_TIER_ANNOTATIONS: Final = (
    *(well_known.ORIGINAL, well_known.TIER_NODES, well_known.MEMORY_GIVEN),
    *(well_known.MIG_FALLBACK, well_known.MEMORY_FLOOR, well_known.WANTED_MEMORY),
)


class MigrationCandidate(msgspec.Struct, frozen=True):
    """A possible migration; ``wanted`` is the replacement pod.

    ``subrequests`` are those of its claims before and after, ``devices`` what its claims get.
    ``is_named``: only claims that the pod names are degraded.
    """

    move: MigrationKind
    pod: Pod
    wanted: Pod
    node_name: str
    subrequests: tuple[Subrequests, Subrequests] = ({}, {})
    devices: tuple[DeviceId, ...] = ()
    is_named: bool = False

    @property
    def source(self) -> dict[str, int]:
        """What the pod has."""
        return {**self.pod.gpu_requests, **self.subrequests[0]}

    @property
    def target(self) -> dict[str, int]:
        """What its replacement gets."""
        return {**self.wanted.gpu_requests, **self.subrequests[1]}

    @property
    def change(self) -> str:
        """``1g.10gb->2g.20gb``, for messages."""
        return f"{profiles(self.source)}->{profiles(self.target)}"

    @property
    def key(self) -> tuple[object, ...]:
        """The fields that identify an unchanged candidate."""
        return self.move, self.pod.uid, tuple(sorted(self.target.items()))


def restorable(
    cluster: Cluster, reservations: Reservations, waiting: Waiting, pod: Pod, pipeline: Pipeline
) -> MigrationCandidate | None:
    """The possible restore of a degraded pod."""
    wanted = with_original_request(pod)
    has_tier = wanted is not None and wanted.gpu_requests != pod.gpu_requests
    degraded = degraded_claims(cluster.dra, pod, with_named=not has_tier)
    if wanted is None or not has_tier:
        if not degraded.target:
            return None
        wanted = unplaced(pod)
    if cluster.quotas.refusal(wanted, admitted_pods(reservations, pod)) is not None:
        return None  # a quota would reject the replacement
    held, options = reservations.holders(pod.priority), [Candidate(pod=wanted)]
    claims = degraded.claims
    found = choose_tier(cluster, wanted, options, held, waiting, pipeline, claims=claims)
    return _restore(pod, found, degraded) if isinstance(found, TierGranted) else None


def _restore(pod: Pod, found: TierGranted, degraded: DegradedClaims) -> MigrationCandidate:
    plan = found.placement.claims
    return MigrationCandidate(
        MigrationKind.RESTORE,
        pod,
        found.pod,
        found.placement.node_name,
        subrequests=(degraded.source, degraded.target),
        devices=devices_of(plan.allocations) if plan is not None else (),
        is_named=degraded.is_named,
    )


def admitted_pods(reservations: Reservations, pod: Pod) -> list[Pod]:
    """Pods that no quota status contains yet, and the pod to be replaced, which will be gone."""
    less = {resource: -amount for resource, amount in pod.requests.items()}
    gone = msgspec.structs.replace(pod, requests=less)
    return [*(one.pod for one in reservations.pending()), gone]


def migration_of(
    candidate: MigrationCandidate, facts: OwnerFacts, attempt: int, digest: str, now: float
) -> Migration:
    """The PodMigration with which a safe migration begins."""
    pod, match = candidate.pod, match_of(candidate.pod)
    assert pod.owner is not None, "only owned pods are migrated"
    assert match is not None, "what is owned can be matched"
    return Migration(
        id=name_of(candidate.move, attempt, digest),
        move=candidate.move,
        namespace=pod.namespace,
        owner=pod.owner,
        event_target=facts.event_target,
        workload=pod.workload,
        revision=match.revision,
        index=match.index,
        pod_name=pod.name,
        pod_uid=pod.uid,
        source=candidate.source,
        target=candidate.target,
        node_name=candidate.node_name,
        requests=dict(candidate.wanted.requests),
        devices=candidate.devices,
        priority=pod.priority,
        attempt=attempt,
        replicas=facts.replicas,
        made_at=now,
        deadline=now + facts.grace_s + HELD_S,
    )


def candidates(pods: Iterable[Pod], scheduler_name: str) -> list[Pod]:
    """Running degraded pods, each once, by priority and then by time since the degradation."""
    running = (
        pod
        for pod in {one.uid: one for one in pods}.values()
        if pod.node_name and not pod.is_deleting and pod.scheduler_name == scheduler_name
    )
    return sorted(running, key=lambda pod: (-pod.priority, pod.created, pod.uid))


def group_key(topology: TopologyReader, pod: Pod) -> object:
    """The kind of a pod: pods of one kind get the same answer."""
    annotations = tuple(map(pod.annotations.get, _TIER_ANNOTATIONS))
    return (
        pod.priority,
        pod.equivalence_class,
        topology.terms_key(pod),
        pod.namespace,
        pod.group,
        pod.map_text is None,
        pod.resource_claims.sources,
        *annotations,
    )
