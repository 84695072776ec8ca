"""What is written of a pod's claims, with what a decision cannot know: time, ids and names."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler.bind.extended_claim import SUFFIX_LENGTH, claim_name
from scheduler.model.actions import CreateClaim, ReserveClaim, ReserveClaims
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim_plan import ClaimPlan, NewClaim, PlannedClaim
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import rfc3339
from scheduler.state.cache.cluster import Cluster


class ClaimWrites:
    """Requests for the plans of placements; ``wall`` is Unix time, ``new_uid`` makes an id."""

    def __init__(
        self, cluster: Cluster, wall: Callable[[], float], new_uid: Callable[[], str]
    ) -> None:
        self._cluster = cluster
        self._wall = wall
        self._new_uid = new_uid

    def of(self, pod: Pod, plan: ClaimPlan, attempt: int) -> ReserveClaims:
        """The request for a plan; LookupError if a claim is not as it was decided on."""
        claims = tuple(map(self._reserve, plan.claims))
        created = self._create(pod, plan.extended) if plan.extended is not None else None
        return ReserveClaims(pod.uid, pod.name, attempt, claims, created)

    def _reserve(self, planned: PlannedClaim) -> ReserveClaim:
        """The write of one claim, in the version that was decided on.

        A claim that is reserved already is written too: a reservation that is being taken back may
        not be seen yet.
        """
        claim = self._cluster.dra.claim(planned.key)
        if claim is None or claim.uid != planned.uid:
            raise LookupError(f"claim {planned.key} is gone")
        given = planned.allocation
        allocation = claim.allocation if given is None else self._completed(given)
        if allocation is None:
            raise LookupError(f"claim {planned.key} was deallocated")
        return ReserveClaim(
            *(claim.namespace, claim.name, claim.uid, claim.version, allocation),
            is_allocated=given is None,
            finalizers=claim.finalizers,
        )

    def _create(self, pod: Pod, planned: NewClaim) -> CreateClaim:
        name = claim_name(pod.name, self._new_uid()[:SUFFIX_LENGTH])
        return CreateClaim(pod.namespace, name, planned.asked, self._completed(planned.allocation))

    def _completed(self, allocation: Allocation) -> Allocation:
        results = tuple(
            msgspec.structs.replace(one, share_id=self._new_uid()) if one.is_shared else one
            for one in allocation.results
        )
        timestamp = rfc3339(self._wall())
        return msgspec.structs.replace(allocation, results=results, timestamp=timestamp)
