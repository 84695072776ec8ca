"""The answer to an admission query of the webhook. Pure.

The callers (the socket server, the simulator) store the reservation of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.decide.admission.fallback_candidates import Candidate, options
from scheduler.decide.admission.fallback_policy import FallbackPolicy, PolicyError, policy_of
from scheduler.decide.admission.map_nodes import map_request, node_kinds
from scheduler.decide.admission.notices import granted_instead, impossible_tier
from scheduler.decide.admission.tier_selection import (
    NoTier,
    TierAttempt,
    TierGranted,
    choose_tier,
    is_changeable,
    is_degradable,
)
from scheduler.framework.pipeline import Pipeline
from scheduler.model import well_known
from scheduler.model.admission import (
    NOTHING,
    AdmissionDecision,
    NodeAssignment,
    ResourceRewrite,
    Scope,
)
from scheduler.model.mig.fallback_ladder import Ladder
from scheduler.model.pods.original_request import memory_given
from scheduler.model.pods.pod import Pod, Role
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reservation_limits import counted_priority
from scheduler.state.reservations import Reservation, Reservations


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that an admission uses; ``scope`` is the configured one."""

    pipeline: Pipeline = default_pipeline()
    scope: str = "ours"
    ladders: tuple[Ladder, ...] = ()


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, the free tier, the metric result, and the tiers that were not granted.

    ``is_reserved``: the tier is reserved for the pod. Otherwise the tier is only written into the
    pod, without a reservation.
    """

    answer: AdmissionDecision
    granted: TierGranted | None = None
    is_reserved: bool = False
    result: str = "untouched"
    tried: tuple[TierAttempt, ...] = ()


def admit(
    cluster: Cluster,
    reservations: Reservations,
    waiting: Iterable[Iterable[Pod]],
    pod: Pod,
    scope: Scope,
    rules: Rules,
    *,
    now: float = 0.0,
    move: str | None = None,
    avoided_tiers: frozenset[str] = frozenset(),
) -> Admission:
    """Answer one query; ``waiting`` are unschedulable pods that lack one resource, grouped by
    request.

    ``now`` is the clock of the reservations; ``move`` the migration that the pod belongs to;
    ``avoided_tiers`` are tiers on which similar pods crashed.
    """
    untouched = as_requested(cluster, reservations, pod, scope, rules)
    if untouched is not None:
        return with_migration(untouched, pod, move)
    return with_tier(
        cluster, reservations, waiting, pod, rules, now=now, move=move, avoided_tiers=avoided_tiers
    )


def as_requested(
    cluster: Cluster, reservations: Reservations, pod: Pod, scope: Scope, rules: Rules
) -> Admission | None:
    """The answer to a pod that needs no search for a tier; None for any other pod."""
    tag = pod.annotations.get(well_known.RESERVATION)
    known = reservations.known(pod.namespace, tag) if tag else None
    if known is not None:
        return _repeated(known, node_kinds(cluster, pod))
    if _is_concerned(cluster, pod, scope, rules):
        return None
    may_map = cluster.namespace(pod.namespace).may_map(rules.pipeline.maps_allow)
    kinds = node_kinds(cluster, pod)
    ours = may_map and pod.scheduler_name == rules.pipeline.scheduler_name
    added = map_request(pod, kinds) if ours else 0
    answer = AdmissionDecision(node_kinds=kinds, may_map=may_map, map_request=added)
    return Admission(answer=answer)


def with_migration(admission: Admission, pod: Pod, move: str | None) -> Admission:
    """The admission of a pod without a tier; its claims may be why a migration replaced it."""
    if move is None or not pod.resource_claims or admission.answer.known_reservation:
        return admission
    answer = msgspec.structs.replace(admission.answer, move=move)
    return msgspec.structs.replace(admission, answer=answer)


def with_tier(
    cluster: Cluster,
    reservations: Reservations,
    waiting: Iterable[Iterable[Pod]],
    pod: Pod,
    rules: Rules,
    *,
    now: float = 0.0,
    move: str | None = None,
    avoided_tiers: frozenset[str] = frozenset(),
) -> Admission:
    """The first tier that is free for a pod, as ``admit`` answers."""
    pod = _with_effective_priority(pod)
    retried = reservations.retried(pod, now)
    pending = [one for one in reservations.pending() if one is not retried]
    try:
        policy, warnings = policy_of(cluster, pod, rules.ladders, pending, avoided_tiers)
    except PolicyError as error:
        return Admission(answer=AdmissionDecision(denied=str(error)), result="denied")
    ours = pod.scheduler_name == rules.pipeline.scheduler_name
    asked, admitted = _with_migration(pod, move, ours=ours), [one.pod for one in pending]
    # The API server rejects the pod with a better message.
    if problem := cluster.quotas.refusal(asked, admitted):
        return _over_quota(asked, problem, node_kinds(cluster, pod))
    candidates, held = options(cluster, asked, policy, admitted), reservations.others(pod, now)
    found = choose_tier(cluster, asked, candidates, held, waiting, rules.pipeline)
    answer = AdmissionDecision(warnings=warnings, move=move)
    if isinstance(found, TierGranted):
        text = granted_instead(
            cluster, asked, found, policy, restores=rules.pipeline.restores and ours
        )
        answer = _with_warning(answer, text)
        return _granted(pod, found, answer, ours=ours)
    answer = _with_warning(answer, impossible_tier(cluster, found))
    return _refused(pod, found, policy, answer)


def _with_warning(answer: AdmissionDecision, text: str) -> AdmissionDecision:
    if not text:
        return answer
    return msgspec.structs.replace(answer, warnings=(*answer.warnings, text))


def _with_effective_priority(pod: Pod) -> Pod:
    """The pod with its effective priority, as the API server computes it."""
    priority = counted_priority(pod)
    return pod if priority == pod.priority else msgspec.structs.replace(pod, priority=priority)


def _granted(pod: Pod, found: TierGranted, answer: AdmissionDecision, *, ours: bool) -> Admission:
    candidate = found.candidate
    return Admission(
        answer=msgspec.structs.replace(
            answer,
            rewrites=_rewrites(pod, candidate),
            where=candidate.where,
            annotate=ours or bool(candidate.changes),
        ),
        granted=found,
        is_reserved=is_changeable(pod),
        result="degraded" if candidate.changes else "kept",
        tried=found.tried,
    )


def _over_quota(pod: Pod, problem: str, kinds: dict[str, NodeAssignment]) -> Admission:
    tiers = tuple(sorted(map(well_known.mig_profile, pod.gpu_requests)))
    tried = (TierAttempt(tiers, "quota_exceeded", text=f"not tried: {problem}"),)
    # The replaced pod counts until this moment: when the API server admits the replacement, it has
    # its migration.
    answer = AdmissionDecision(node_kinds=kinds, move=pod.annotations.get(well_known.MIGRATION))
    return Admission(answer=answer, result="quota_exceeded", tried=tried)


def _is_concerned(cluster: Cluster, pod: Pod, scope: Scope, rules: Rules) -> bool:
    """Whether gpu-scheduler may change the pod or reserve capacity for it."""
    ours = pod.scheduler_name == rules.pipeline.scheduler_name
    # A pod that gpu-scheduler cannot place is neither degraded nor given a reservation.
    if pod.problem or (ours and pod.unsupported) or not _in_scope(cluster, pod, scope, rules):
        return False
    if pod.names_kueue:  # Kueue counts the size that the pod asks for
        return False
    if well_known.WANTED_MEMORY in pod.annotations and ours:
        return not memory_given(pod)  # an earlier call of the same admission has already done it
    return is_degradable(pod)


def _repeated(known: Reservation, kinds: dict[str, NodeAssignment]) -> Admission:
    """The second call of one admission gets the answer of the first."""
    answer = AdmissionDecision(
        rewrites=known.rewrites,
        reservation=known.id,
        known_reservation=True,
        move=known.pod.annotations.get(well_known.MIGRATION),
        node_kinds=kinds,
    )
    return Admission(answer=answer)


def reserve(
    reservations: Reservations, admission: Admission, reservation_id: str, now: float
) -> AdmissionDecision:
    """Store the reservation of an admission; the answer then has its id."""
    granted, answer = admission.granted, admission.answer
    assert granted is not None, "no tier is free, so none can be reserved"
    reservations.create(
        reservation_id,
        granted.pod,
        granted.placement.node_name,
        now,
        is_annotated=answer.annotate,
        rewrites=tuple(answer.rewrites),
    )
    return msgspec.structs.replace(answer, reservation=reservation_id)


def reserve_dry_run(
    reservations: Reservations, admission: Admission, reservation_id: str, now: float
) -> AdmissionDecision:
    """The answer to a dry run: no reservation, and the rewrite is recognizable in the second call.

    The API server calls the webhook twice for a dry run too; the second rewrite would add to the
    first.
    """
    granted, answer = admission.granted, admission.answer
    if granted is None or not answer.rewrites:
        return answer
    reservations.dry_run(reservation_id, granted.pod, now, tuple(answer.rewrites))
    return msgspec.structs.replace(answer, reservation=reservation_id)


def _in_scope(cluster: Cluster, pod: Pod, scope: Scope, rules: Rules) -> bool:
    if pod.scheduler_name == rules.pipeline.scheduler_name:
        return scope == "ours"
    enabled = (
        cluster.namespace(pod.namespace).labels.get(well_known.FALLBACK_NAMESPACE) == "enabled"
    )
    return scope == "any" and (rules.scope == "all" or enabled)


def _with_migration(pod: Pod, move: str | None, *, ours: bool) -> Pod:
    """The pod with its recorded migration, whatever its annotation says.

    Only devices matter here, so features that gpu-scheduler does not implement are ignored.
    """
    annotations = {
        key: value for key, value in pod.annotations.items() if key != well_known.MIGRATION
    }
    if move is not None:
        annotations[well_known.MIGRATION] = move
    unsupported = pod.unsupported if ours else ()
    return msgspec.structs.replace(pod, annotations=annotations, unsupported=unsupported)


def _refused(
    pod: Pod, found: NoTier, policy: FallbackPolicy, answer: AdmissionDecision
) -> Admission:
    if found.is_unknown:
        text = f"no other tier was tried: {found.tried[-1].message}"
        answer = msgspec.structs.replace(answer, warnings=(*answer.warnings, text))
    elif policy.is_strict(pod):
        denied = f"none of {', '.join(found.tiers)} is free and the ladder ends in fail"
        return Admission(
            answer=AdmissionDecision(denied=denied), result="denied", tried=found.tried
        )
    if policy.memory and found.candidate is not None:  # without a request nothing would be reserved
        rewrites, where = _rewrites(pod, found.candidate), found.candidate.where
        answer = msgspec.structs.replace(answer, rewrites=rewrites, where=where)
    return Admission(answer=answer, result="pending", tried=found.tried)


def _rewrites(pod: Pod, candidate: Candidate) -> tuple[ResourceRewrite, ...]:
    added = dict(candidate.added)
    return tuple(
        ResourceRewrite(
            container=container.name,
            source=old,
            target=new,
            init=container.role is not Role.APP,
        )
        for container in pod.containers
        for old, new in (*candidate.changes, (NOTHING, added.get(container.name, "")))
        if new and (container.devices.get(old, 0) > 0 or old == NOTHING)
    )
