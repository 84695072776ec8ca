"""The decision about one pod at admission: a patch, warnings, a denial, log lines.

Pure: a function of the pod, the request, the scheduler's answer and the configuration. A pod out of
scope is never changed, the patch always applies, and a second call on the patched pod changes
nothing.

    ours   pods of this scheduler: remove protected annotations, check, degrade, set the variable
    any    pods of other schedulers: only the MIG fallback
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, Scope
from scheduler.model.gpu.gpu_map import shown
from scheduler.model.mig.tier_nodes import ANYWHERE
from webhook.mutate import (
    cuda_env,
    gpu_map,
    map_request,
    raw_pod,
    resource_rewrite,
    tier_node_affinity,
    unknown_annotations,
)
from webhook.mutate.json_patch import difference
from webhook.mutate.pod_draft import FORBIDDEN, Denial, Outcome, PodDraft, Refused
from webhook.mutate.raw_pod import RawPod

#: Annotations that need a query, whatever the containers request.
_ASKS: Final = (well_known.WANTED_MEMORY, *well_known.ADMISSION_KEYS)

__all__ = ["AdmissionDecision", "Config", "Denial", "Outcome", "PodMutation", "Request"]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The webhook's settings."""

    scheduler_name: str = well_known.SCHEDULER_NAME


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the admission request that a decision reads, besides the pod."""

    namespace: str
    scope: Scope = "ours"
    dry_run: bool = False


class PodMutation:
    """One pod under review, before the scheduler is queried."""

    def __init__(self, pod: RawPod, request: Request, config: Config) -> None:
        """Reads the pod once, for the query and for the decision."""
        self._pod = pod
        self._request = request
        self._is_in_scope = _is_in_scope(pod, request, config)
        self._draft = PodDraft(pod, request.namespace)
        self._map: gpu_map.MappedPod | None = None
        self._refused: Refused | None = None
        if not self._is_in_scope:
            return
        self._draft.log.append(f"Reviewing pod: {self._draft.key}")
        _log_tiers(self._draft)
        self._draft.warnings += unknown_annotations.warnings(raw_pod.annotations_of(pod))
        try:
            if request.scope == "ours":
                gpu_map.check_annotations_size(pod)
                self._map = gpu_map.read(pod)
        except Refused as refused:
            self._refused = refused

    @property
    def needs_answer(self) -> bool:
        """Whether to query the scheduler: only where its answer can change the outcome.

        A query is the most expensive part of a review, and most pods request whole GPUs, which are
        neither degraded nor reserved. A pod with claims of its own may be the replacement of a
        migration.
        """
        if not self._is_in_scope or self._refused is not None:
            return False
        if self._request.scope == "any" or self._map is not None:
            return True
        if raw_pod.has_claim_template(self._pod):
            return True
        given = raw_pod.annotations_of(self._pod)
        return any(key in given for key in _ASKS) or any(
            raw_pod.names_mig(slot.container) for slot in raw_pod.slots(self._pod)
        )

    def outcome(self, answer: AdmissionDecision | None) -> Outcome:
        """Decide, once; ``answer`` is None without a query or without an answer."""
        if not self._is_in_scope:
            return Outcome()
        draft, denial = self._draft, None
        try:
            if self._refused is not None:
                raise self._refused
            _decide(draft, self._request, self._map, answer)
            if self._request.scope == "ours" and draft.pod is not self._pod:
                gpu_map.check_annotations_size(draft.pod)
        except Refused as refused:
            denial = refused.denial
            draft.log.append(f"Denied pod {draft.key}: {denial.message}")
        return Outcome(
            patch=() if denial else tuple(difference(self._pod, draft.pod)),
            warnings=tuple(draft.warnings),
            denial=denial,
            log=tuple(draft.log),
            audit=draft.audit,
            pod=draft.reference,
        )


def _log_tiers(draft: PodDraft) -> None:
    """Log the MIG tiers that the pod requests."""
    asked = {r for slot in raw_pod.slots(draft.pod) for r in raw_pod.mig_resources(slot.container)}
    for resource in sorted(asked):
        draft.log.append(f"Pod {draft.key} requests {well_known.mig_profile(resource)} MIG")


def _is_in_scope(pod: RawPod, request: Request, config: Config) -> bool:
    is_ours = raw_pod.spec(pod).get("schedulerName") == config.scheduler_name
    if request.scope == "ours":
        return is_ours
    return not is_ours and any(raw_pod.mig_resources(s.container) for s in raw_pod.slots(pod))


def _decide(
    draft: PodDraft,
    request: Request,
    pod_map: gpu_map.MappedPod | None,
    answer: AdmissionDecision | None,
) -> None:
    if answer and answer.denied is not None:
        raise Refused(answer.denied, FORBIDDEN)
    _strip(draft, request, answer)
    if pod_map:
        _check_node(draft, pod_map, answer)
        if answer and answer.map_request:
            map_request.add(draft, answer.map_request)
            pod_map = gpu_map.read(draft.pod) or pod_map
        if _may_warn(draft, answer):
            cuda_env.inject(draft, pod_map, answer)
    # Nearly every pod gets what it requests, wherever that is.
    if (answer and answer.rewrites) or well_known.ORIGINAL in raw_pod.annotations_of(draft.pod):
        resource_rewrite.degrade(draft, answer)
    if answer:
        if answer.where != ANYWHERE:
            tier_node_affinity.bind(draft, answer.where)
        draft.warnings += answer.warnings
        _reserve(draft, answer)


def _strip(draft: PodDraft, request: Request, answer: AdmissionDecision | None) -> None:
    """Remove protected annotations, unless an earlier call of this admission wrote them."""
    is_second_call = answer is not None and answer.known_reservation
    gone = []
    for key, value in raw_pod.annotations_of(draft.pod).items():
        if key in well_known.ADMISSION_KEYS:
            given = (answer.reservation, answer.move) if answer else ()
            is_forged = not is_second_call and value not in given
        else:
            is_forged = request.scope == "ours" and well_known.is_protected(key)
        if is_forged:
            gone.append(key)
            draft.warnings.append(
                f"annotation {key} is removed: only {well_known.PREFIX[:-1]} sets it"
            )
    draft.annotate(dict.fromkeys(gone))


def _check_node(
    draft: PodDraft, pod_map: gpu_map.MappedPod, answer: AdmissionDecision | None
) -> None:
    """Reject a pod with a node other than the one in its map."""
    entry = pod_map.entry
    node_name = raw_pod.text(raw_pod.spec(draft.pod).get("nodeName"))
    if not node_name or entry is None or entry.node == node_name:
        return
    named = f'{well_known.MAP} index {entry.index}: the line names node "{shown(entry.node)}"'
    if answer is None:
        draft.warnings.append(f"{named}, which was not compared with spec.nodeName")
        return
    known = answer.node_kinds.get(entry.node)
    if known is None or known.node != node_name:
        raise Refused(f'{named}, spec.nodeName is "{shown(node_name)}"')


def _may_warn(draft: PodDraft, answer: AdmissionDecision | None) -> bool:
    """Whether the map's devices are written into the pod.

    A pod with a node is not scheduled, so its namespace must be allowed to use maps. A pod without
    a node stays pending until its namespace may use maps. Without an answer of the scheduler the
    devices are written.
    """
    if answer is None or answer.may_map or not raw_pod.spec(draft.pod).get("nodeName"):
        return True
    draft.warnings.append(
        f"{well_known.MAP} is ignored: namespace {draft.namespace} may not use it (label it"
        f" {well_known.MAPS_ALLOWED}=allowed), and spec.nodeName is given"
    )
    return False


def _reserve(draft: PodDraft, answer: AdmissionDecision) -> None:
    """Set the reservation's annotation, by which the scheduler recognizes the created pod."""
    if answer.reservation and answer.annotate:
        draft.annotate({well_known.RESERVATION: answer.reservation})
        draft.audit["reservation"] = answer.reservation
    if answer.move:
        draft.annotate({well_known.MIGRATION: answer.move})
        draft.audit["move"] = answer.move
