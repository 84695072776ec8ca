"""Selects the tier of a new pod at admission (design 5.8 to 5.11).

A tier is free if the new pod can be scheduled on the cluster with these holders placed on top: pods
with a reservation, and pending pods that fit exactly one tier, each only if its priority is at
least the new pod's. Pods without a placement on the current cluster cannot degrade another pod.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator

import msgspec

from scheduler.decide import best_fit
from scheduler.decide.admission.fallback_candidates import Candidate, SkippedTier
from scheduler.decide.schedule_one import place, schedule_one
from scheduler.decide.view import WhatIfView, stronger
from scheduler.framework.budget import Budget, is_light
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline, first_rejection
from scheduler.framework.reason_codes import TOO_COMPLEX
from scheduler.model import well_known
from scheduler.model.crd.migration import is_for
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.pods.original_request import memory_given
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis, sentence
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reservations import Reservation


class TierAttempt(msgspec.Struct, frozen=True):
    """A tier that the new pod did not get, and the reason; ``result`` is the metric result.

    ``diagnosis`` if the tier was tried and did not fit, ``text`` if it was not tried.
    """

    tiers: tuple[str, ...]
    result: str = "full"
    diagnosis: Diagnosis | None = None
    text: str = ""

    @property
    def message(self) -> str:
        """The reason as a sentence."""
        return self.text if self.diagnosis is None else sentence(self.diagnosis)


class TierGranted(msgspec.Struct, frozen=True):
    """A tier for the new pod; ``candidate`` is the rewrite of its pod."""

    candidate: Candidate
    placement: Placement
    tried: tuple[TierAttempt, ...] = ()

    @property
    def pod(self) -> Pod:
        """The pod as rewritten."""
        return self.candidate.pod


class NoTier(msgspec.Struct, frozen=True):
    """No tier is free; ``candidate`` is the first tier that the pod could wait for.

    ``is_unknown``: the check would have exceeded the budget, so the result is unknown.
    """

    tried: tuple[TierAttempt, ...]
    candidate: Candidate | None = None
    is_unknown: bool = False

    @property
    def tiers(self) -> tuple[str, ...]:
        """Every tier that was checked, once, in order."""
        return tuple(dict.fromkeys(tier for one in self.tried for tier in one.tiers))


def is_changeable(pod: Pod) -> bool:
    """Whether a tier may be reserved for the pod at all (design 5.10)."""
    owner = pod.owner.word if pod.owner else ""
    return (
        pod.map_text is None
        and not pod.gates
        and not pod.node_name
        and owner not in ("DaemonSet", "Node")
        and pod.annotations.get(well_known.PREFER) != "preempt"
    )


def is_degradable(pod: Pod) -> bool:
    """Whether the pod takes part in fallback: it requests MIG, or got its tier from a memory
    request.
    """
    if not is_changeable(pod):
        return False
    return any(map(well_known.is_mig, pod.gpu_requests)) or bool(memory_given(pod))


def choose_tier(
    cluster: Cluster,
    pod: Pod,
    options: Iterable[Candidate | SkippedTier],
    reservations: Iterable[Reservation],
    waiting: Iterable[Iterable[Pod]],
    pipeline: Pipeline,
    work: Budget | None = None,
    claims: Collection[ResourceClaim] = (),
) -> TierGranted | NoTier:
    """The first option with which the pod fits beside all stronger holders.

    ``waiting`` are unschedulable pods that lack exactly one resource, grouped by request.
    ``claims`` are the pod's as they would be, where the API server has others.
    """
    work = work or Budget(pipeline.decision_steps_max)
    reserved = _ReservedCapacity(WhatIfView(cluster, claims), pipeline, work)
    reserved.overlay.hold(stronger(cluster.nominations, pod))
    own = [one for one in cluster.nominated.values() if is_for(one, pod)]
    reserved.overlay.hold(own)
    reserved_uids: set[str] = set()
    for reservation in reservations:
        reserved_uids.add(reservation.pod.uid)
        if is_light(reservation.pod) and not _holds_already(cluster, reservation.pod):
            reserved.hold_reservation(reservation)
    reserved.place_groups(
        (
            one
            for one in group
            if one.uid not in reserved_uids and one.priority >= pod.priority and is_light(one)
        )
        for group in waiting
    )
    for one in own:  # the tier is free for the new pod, and for no pending pod
        reserved.overlay.lift(one)
    return _first_fit(cluster, reserved.overlay, options, pipeline, work)


def _first_fit(
    cluster: Cluster,
    view: WhatIfView,
    options: Iterable[Candidate | SkippedTier],
    pipeline: Pipeline,
    work: Budget,
) -> TierGranted | NoTier:
    tried: list[TierAttempt] = []
    pending_candidates: list[Candidate] = []
    blocked_candidates: list[Candidate] = []
    for candidate in options:
        if isinstance(candidate, SkippedTier):
            tried.append(TierAttempt(candidate.tiers, candidate.result, text=candidate.text))
            blocked_candidates += [candidate.candidate] if candidate.candidate is not None else []
            continue
        # A tier may name labels that no earlier pod has named.
        cluster.track_label_keys(candidate.pod)
        decision = schedule_one(view, candidate.pod, pipeline, work)
        if isinstance(decision, Placement):
            return TierGranted(candidate, decision, tuple(tried))
        tried.append(TierAttempt(candidate.tiers, diagnosis=decision.diagnosis))
        pending_candidates.append(candidate)
        if TOO_COMPLEX in decision.diagnosis.codes():
            return NoTier(tuple(tried), pending_candidates[0], is_unknown=True)
    return NoTier(tuple(tried), next(iter(pending_candidates + blocked_candidates), None))


def _holds_already(cluster: Cluster, pod: Pod) -> bool:
    """Whether the reserved capacity is assigned already, or held by the migration of the pod."""
    if pod.uid in cluster.assumed or pod.uid in cluster.nominated:
        return True
    move = cluster.nominated.get(pod.annotations.get(well_known.MIGRATION, ""))
    return move is not None and is_for(move, pod) and move.gpu_requests == pod.gpu_requests


class _ReservedCapacity:
    """The cluster with all stronger holders placed on top, as far as they fit.

    Capacity only shrinks here, so once one pod does not fit, equal pods need not be tried.
    """

    def __init__(self, overlay: WhatIfView, pipeline: Pipeline, work: Budget) -> None:
        self.overlay = overlay
        self._pipeline = pipeline
        self._work = work
        self._infeasible: set[object] = set()

    def hold_reservation(self, reservation: Reservation) -> None:
        """Place a pod with a reservation on its reserved node, or else wherever it fits."""
        self._work.spend(reservation.pod.label_steps + reservation.pod.node_steps)
        node_info = self.overlay.at(reservation.node_name)
        if node_info is not None and not first_rejection(
            reservation.pod, node_info, self._pipeline.points(reservation.pod).filters
        ):
            devices = best_fit.devices(reservation.pod, node_info)
            self.overlay.place(reservation.pod, reservation.node_name, devices)
            return
        reservation.node_name = self.place(reservation.pod) or reservation.node_name

    def place(self, pod: Pod) -> str | None:
        """Place a pod wherever it fits; the node's name, or None."""
        class_key = _class_key(pod)
        if class_key in self._infeasible:
            return None
        placement = place(self.overlay, _schedulable(pod), self._pipeline, self._work)
        if placement is None:
            self._infeasible.add(class_key)
            return None
        self.overlay.place(pod, placement.node_name, placement.devices, placement.claims)
        return placement.node_name

    def place_groups(self, groups: Iterable[Iterator[Pod]]) -> None:
        """Place pods by priority and age; the first one that does not fit ends its group."""
        heads: list[tuple[int, str, int, Pod, Iterator[Pod]]] = []
        for number, group in enumerate(groups):
            _push(heads, number, group)
        while heads:
            *_, number, pod, group = heapq.heappop(heads)
            if self.place(pod) is not None:
                _push(heads, number, group)


def _push(
    heads: list[tuple[int, str, int, Pod, Iterator[Pod]]], number: int, group: Iterator[Pod]
) -> None:
    pod = next(group, None)
    if pod is not None:
        heapq.heappush(heads, (-pod.priority, pod.created, number, pod, group))


def _schedulable(pod: Pod) -> Pod:
    # Only devices matter here, so features that gpu-scheduler does not implement are ignored.
    return msgspec.structs.replace(pod, unsupported=()) if pod.unsupported else pod


def _class_key(pod: Pod) -> object:
    return (
        pod.priority,
        tuple(sorted(pod.requests.items())),
        tuple(sorted(pod.node_selector.items())),
        pod.required_terms,
        pod.tolerations,
        pod.host_ports,
        pod.uid if pod.map_text is not None else "",
        pod.uid if pod.resource_claims else "",
    )
