"""Placements that wait for their ResourceClaims: reserved, ready, then bound or given up.

::

    PendingPlacement --reserved--seen--every device is ready--> the step is complete --bound--> done
                        |--a write fails, a claim changes-----> reservations taken back, retried
                        |--a device fails, 600 s pass---------> also deallocated, retried
                        |--another claim had a device before--> also deallocated, retried
                        '--the pod goes, or is not bound------> reservations taken back

It is seen once the watch shows all claims up to our writes, and the whole pools of their devices:
the API server lets two schedulers allocate the same device (``state/dra/collisions``).

Meanwhile the pod is assumed on its node, and its devices are assumed to be allocated. Only the
leader writes. A new leader decides again: a claim that is reserved for a pod that waits keeps its
devices, and the pod gets a node that can use them. The rules are those of ``PreBind`` and
``Unreserve`` in kube-scheduler's dynamicresources; an event takes the place of its poll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, get_args

import msgspec
import structlog

from scheduler.bind.extended_claim import is_own
from scheduler.controllers.claim_writes import ClaimWrites
from scheduler.controllers.former_claims import FormerClaims
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.controllers.pending_placements import PendingPlacements
from scheduler.framework.decision import AllocateClaims, PendingPlacement, Rejection
from scheduler.model.actions import (
    ClaimRef,
    CompleteStep,
    CreatedClaim,
    RecordWaiting,
    ReleaseClaims,
)
from scheduler.model.dra.binding_conditions import binding_conditions
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import PlannedClaim
from scheduler.model.timestamps import epoch
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.dra.claims.allocation_versions import version_of
from scheduler.state.dra.collisions import collision, unusable_pool
from scheduler.state.effects import NOTHING, Effects

#: As long as kube-scheduler waits for the conditions of devices (``bindingTimeout``).
TIMEOUT_S: Final = 600.0

log = structlog.get_logger("claims")


class PendingClaims(msgspec.Struct):
    """A placement that waits; ``deadline`` is on the loop's clock.

    ``is_told`` once the pod's condition says what it waits for. ``created`` is the claim for
    extended resources, as the API server answered; ``is_shown`` once the watch shows its
    allocation, which may be later. ``version`` is that of our newest write.
    """

    placement: PendingPlacement
    claims: tuple[ClaimRef, ...]
    deadline: float
    attempt: int
    is_reserved: bool = False
    version: int = 0
    is_verified: bool = False
    is_told: bool = False
    created: ResourceClaim | None = None
    is_shown: bool = False


class OwnClaims(msgspec.Struct, frozen=True):
    """What was written for a pod on its way to a node: claims that are reserved for it, and the one
    that is created for its extended resources.
    """

    reserved: tuple[ClaimRef, ...]
    created: CreatedClaim | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all claims."""
        named = tuple(one.key for one in self.reserved)
        return named if self.created is None else (*named, self.created.key)


class ClaimController:
    """The placements of one scheduler that wait for ResourceClaims.

    ``wall`` is Unix time, for the timestamp of allocations; ``new_uid`` makes the id of a share.
    """

    name = "claim-allocation"
    handles = (
        *(ev.ClaimsReserved, *get_args(ev.DraEvent), ev.BindEnded),
        *(ev.PodUpdated, ev.PodDeleted, ev.PodsReplaced),
    )

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        avoidance: NodeAvoidance,
        wall: Callable[[], float],
        new_uid: Callable[[], str],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._wall = wall
        self._timeout_s = timeout_s
        self._pending: PendingPlacements[PendingClaims] = PendingPlacements(cluster, avoidance)
        #: The claims of each pod on its way to a node, until it is bound.
        self._reserved: dict[str, OwnClaims] = {}
        self._writes = ClaimWrites(cluster, wall, new_uid)
        self._former = FormerClaims(cluster)
        self._attempts = 0

    def begin(self, placement: PendingPlacement, now: float) -> Effects:
        """A placement was assumed: allocate and reserve its claims."""
        uid = placement.pod.uid
        plan = next(step.plan for step in placement.steps if isinstance(step, AllocateClaims))
        self._attempts += 1
        refs = tuple(_ref(one) for one in plan.claims)
        pod = placement.pod
        pending = self._pending[uid] = PendingClaims(
            placement, refs, now + self._timeout_s, self._attempts
        )
        try:
            reserve = self._writes.of(pod, plan, self._attempts)
        except LookupError as gone:
            return self._fail(pending, str(gone.args[0]), "gone", now)
        new = reserve.extended
        own = CreatedClaim(pod.namespace, new.name, pod.name) if new is not None else None
        self._reserved[uid] = OwnClaims(refs, own)
        self._cluster.dra.begin_write(uid)
        return (*self._former.delete_of(pod), reserve)

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Check what an event may concern, after it was folded."""
        if not self._reserved:
            return NOTHING
        match event:
            case ev.ClaimsReserved():
                return self._written(event, now)
            case ev.PodUpdated(pod):
                return self._check_pod(pod.uid, now)
            case ev.PodDeleted(uid) | ev.BindEnded(uid):
                return self._check_pod(uid, now)
            case ev.PodsReplaced():
                return self._check_all(now)
        return self._check_conditions(now)

    def tick(self, now: float, *, leads: bool) -> Effects:
        """End what is too late. A process that leads no more gives up what is pending."""
        if leads:
            return (*self._check_all(now), *self._former.delete_abandoned(self._reserved, now))
        self._reserved.clear()  # the next leader finds the claims reserved
        return self._pending.give_up_all(now)

    def deallocate(self, rejection: Rejection) -> Effects:
        """Give up the allocation that keeps a pod from every node."""
        claim = rejection.deallocates
        assert claim is not None, f"{rejection.pod.key} has no claim to deallocate"
        uid = rejection.pod.uid
        log.info("deallocating claim", claim=claim.key, pod=rejection.pod.key)
        self._cluster.dra.releases.begin(uid, (claim.key,))
        return (ReleaseClaims(uid, (claim,), deallocate=True),)

    def reject(self, uid: str, now: float) -> Effects | None:
        """Cancel a placement that waits for its claims, and deallocate them: another pod is to get
        the devices. None if there is none, and no other controller has cancelled it.
        """
        given_up = self._pending.reject(uid, now)
        if given_up is None and (uid in self._cluster.assumed or uid not in self._reserved):
            return None
        return (*(given_up or ()), *self._release(uid, deallocate=True))

    # --- what is written ---------------------------------------------------------------------

    def _written(self, event: ev.ClaimsReserved, now: float) -> Effects:
        pending = self._pending.get(event.uid)
        if pending is None or pending.attempt != event.attempt:
            return NOTHING
        if event.is_unsent:
            return self._give_up(event.uid, now)
        if event.problem:
            return self._fail(pending, event.problem, "refused", now)
        pending.is_reserved = True
        pending.version = max(map(version_of, event.claims), default=0)
        pending.created = next((one for one in event.claims if is_own(one, event.uid)), None)
        return self._check(pending, now)

    # --- what is ready -----------------------------------------------------------------------

    def _check_all(self, now: float) -> Effects:
        return tuple(effect for uid in list(self._reserved) for effect in self._check_pod(uid, now))

    def _check_conditions(self, now: float) -> Effects:
        """Only the watch and devices with conditions keep a reserved placement waiting."""
        reserved = [one for one in self._pending.values() if one.is_reserved and self._is_seen(one)]
        return tuple(effect for one in reserved for effect in self._check(one, now))

    def _check_pod(self, uid: str, now: float) -> Effects:
        if uid not in self._reserved:
            return NOTHING
        pod = self._cluster.pods.get(uid)
        pending = self._pending.get(uid)
        if pod is not None and pod.node_name:  # it may use its claims
            del self._reserved[uid]
            return NOTHING if pending is None else self._pending.drop(uid, (), now)
        if uid not in self._cluster.assumed:
            dropped = NOTHING if pending is None else self._pending.drop(uid, (), now)
            return (*dropped, *self._release(uid))
        if pending is None:
            return NOTHING
        if pod is not None and pod.is_deleting:
            return self._give_up(uid, now)
        return self._check(pending, now)

    def _check(self, pending: PendingClaims, now: float) -> Effects:
        node_name = pending.placement.node_name
        if self._cluster.at(node_name) is None:
            return self._fail(pending, f"node {node_name} is gone", "gone", now)
        if not pending.is_reserved:
            return NOTHING
        claims: list[ResourceClaim] = []
        for key, claim in self._claims_of(pending):
            if claim is None or claim.allocation is None:
                return self._fail(pending, f"claim {key} was deallocated", "gone", now)
            claims.append(claim)
        held_up = None if pending.is_verified else self._verify(pending, claims, now)
        return self._check_devices(pending, claims, now) if held_up is None else held_up

    def _verify(
        self, pending: PendingClaims, claims: Sequence[ResourceClaim], now: float
    ) -> Effects | None:
        """None once it is known that the claims left other claims what they had before."""
        if not self._is_seen(pending):
            return self._wait_to_verify(pending, "the watch does not show its claims", now)
        store = self._cluster.dra
        for claim in claims:
            collided = collision(store, claim)
            if collided is not None:
                text = f"claim {claim.key}: {collided}"
                return self._fail(pending, text, "collision", now, deallocate=True)
        for claim in claims:
            unknown = unusable_pool(store, claim)
            if unknown:
                return self._wait_to_verify(pending, f"claim {claim.key}: {unknown}", now)
        pending.is_verified = True
        return None

    def _is_seen(self, pending: PendingClaims) -> bool:
        """Whether the watch has shown every claim up to our writes."""
        return pending.version <= self._cluster.dra.versions.shown

    def _wait_to_verify(self, pending: PendingClaims, problem: str, now: float) -> Effects:
        if now < pending.deadline:
            return NOTHING
        text = f"{problem} after {self._timeout_s:g} s"
        return self._fail(pending, text, "timeout", now, deallocate=True)

    def _check_devices(
        self, pending: PendingClaims, claims: Iterable[ResourceClaim], now: float
    ) -> Effects:
        """Wait for the conditions of devices."""
        waits: list[str] = []
        is_late = now >= pending.deadline
        for claim in claims:
            found = binding_conditions(claim)
            if found.failed:
                text = f"claim {claim.key}: {found.failed}"
                return self._fail(pending, text, "failed", now, deallocate=True)
            waits += found.waits_for
            is_late = is_late or (bool(found.waits_for) and self._is_late(claim))
        return self._wait(pending, waits, now, is_late=is_late)

    def _claims_of(self, pending: PendingClaims) -> Iterator[tuple[str, ResourceClaim | None]]:
        """The claims of a placement by their keys; None where one is gone."""
        store = self._cluster.dra
        for ref in pending.claims:
            claim = store.claim(ref.key)
            yield ref.key, claim if claim is not None and claim.uid == ref.uid else None
        created = pending.created
        if created is not None:
            seen = store.claim(created.key)
            pending.is_shown |= seen is not None and seen.allocation is not None
            yield created.key, seen if pending.is_shown else created

    def _wait(
        self, pending: PendingClaims, waits: list[str], now: float, *, is_late: bool
    ) -> Effects:
        """Complete the step where nothing is waited for, else say so once."""
        uid = pending.placement.pod.uid
        if not waits:
            del self._pending[uid]
            self._metrics.claim_allocations.labels("reserved").inc()
            return (CompleteStep(uid, AllocateClaims.name),)
        if is_late:
            text = f"not ready within {self._timeout_s:g} s: {' and '.join(waits)}"
            return self._fail(pending, text, "timeout", now, deallocate=True)
        if pending.is_told:
            return NOTHING
        pending.is_told = True
        node_name = pending.placement.node_name
        text = f"waits for {' and '.join(waits)} on node {node_name}"
        return (RecordWaiting(pending.placement.pod, text, node_name),)

    def _is_late(self, claim: ResourceClaim) -> bool:
        """Whether a claim waits since an earlier placement, maybe of a former leader."""
        allocation = claim.allocation
        began = epoch(allocation.timestamp) if allocation is not None else None
        return began is not None and self._wall() > began + self._timeout_s

    # --- ends --------------------------------------------------------------------------------

    def _release(self, uid: str, *, deallocate: bool = False) -> Effects:
        own = self._reserved.pop(uid, None)
        if own is None or not (own.reserved or own.created):
            return NOTHING
        if deallocate:
            self._cluster.dra.releases.begin(uid, own.keys)
        return (ReleaseClaims(uid, own.reserved, deallocate, own.created),)

    def _give_up(self, uid: str, now: float) -> Effects:
        """Nothing failed: the pod is decided again at once, if it still waits for a node."""
        return (*self._release(uid), *self._pending.give_up(uid, now))

    def _fail(
        self,
        pending: PendingClaims,
        problem: str,
        result: str,
        now: float,
        *,
        deallocate: bool = False,
    ) -> Effects:
        """The placement is taken back, and the pod is decided again after its backoff."""
        uid, node_name = pending.placement.pod.uid, pending.placement.node_name
        released = self._release(uid, deallocate=deallocate)
        changes = self._cluster.forget(uid)
        pod = self._cluster.pods[uid]
        log.warning("claims not allocated", pod=pod.key, node=node_name, problem=problem)
        self._metrics.claim_allocations.labels(result).inc()
        failed = ev.BindFailed(pod, f"{problem} (node {node_name})", "allocating claims failed")
        return (*released, *self._pending.drop(uid, (*changes, failed), now))


def _ref(planned: PlannedClaim) -> ClaimRef:
    namespace, _, name = planned.key.partition("/")
    return ClaimRef(namespace, name, planned.uid)
