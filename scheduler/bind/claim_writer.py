"""Allocates and reserves the ResourceClaims of a pod, and takes reservations back.

The order is that of ``bindClaim`` in kube-scheduler's dynamicresources: first the finalizer, then
allocation and reservation in one write of the status. Every write names the version that was
decided on. After a conflict the claim is read: the write is repeated if what it depends on is
unchanged, and otherwise the pod is decided again.

The requests of one pod are carried out in their order, so a reservation that is taken back never
overtakes the next one. What waits longer than the term of its decision is not sent: another leader
may have bound the pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import structlog

from scheduler.bind import claim_patch, extended_claim
from scheduler.bind.binder import PAUSE_FIRST_S
from scheduler.bind.busy_server import NotLeading
from scheduler.bind.claim_requests import TRIES, ClaimRequests
from scheduler.model.actions import (
    ClaimRef,
    CreateClaim,
    CreatedClaim,
    ReleaseClaims,
    ReserveClaim,
    ReserveClaims,
)
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.lease import LeaderTerm
from scheduler.model.well_known import CLAIM_FINALIZER
from scheduler.state.event import ClaimsReleased, ClaimsReserved
from scheduler.watch.client import JSON, STRATEGIC_PATCH, ApiError, Client, Unreachable
from scheduler.watch.inbox import Inbox

WORKERS: Final = 32

log = structlog.get_logger("claims")


class _Changed(Exception):
    """The claim is not as the decision saw it; ``str()`` says how."""


class ClaimWriter:
    """Writes in the background; the results go to the inbox. ``decode`` reads an answer."""

    def __init__(
        self,
        client: Client,
        inbox: Inbox,
        term: LeaderTerm,
        decode: Callable[[bytes], ResourceClaim],
        pause_first_s: float = PAUSE_FIRST_S,
    ) -> None:
        self._inbox = inbox
        self._requests = partial(ClaimRequests, client, term, decode, pause_first_s)
        #: One for each worker: all requests of a pod have the same.
        self._queues: list[asyncio.Queue[tuple[ReserveClaims | ReleaseClaims, _TermWriter]]] = [
            asyncio.Queue() for _ in range(WORKERS)
        ]

    def send(self, action: ReserveClaims | ReleaseClaims) -> None:
        """Write soon, in the current term; the result comes back as an event."""
        queue = self._queues[hash(action.uid) % WORKERS]
        queue.put_nowait((action, _TermWriter(self._requests())))

    async def run(self) -> None:
        """Work for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for number, queue in enumerate(self._queues):
                group.create_task(self._work(queue), name=f"claims {number}")

    async def _work(
        self, queue: asyncio.Queue[tuple[ReserveClaims | ReleaseClaims, _TermWriter]]
    ) -> None:
        while True:
            action, writer = await queue.get()
            if isinstance(action, ReserveClaims):
                self._inbox.enqueue(await writer.reserve_all(action))
            else:
                self._inbox.enqueue(await writer.release_all(action))


class _TermWriter:
    """Carries out what was decided in one term, by the requests of that term."""

    def __init__(self, requests: ClaimRequests) -> None:
        self._requests = requests

    # --- reserving ---------------------------------------------------------------------------

    async def reserve_all(self, action: ReserveClaims) -> ClaimsReserved:
        """Reserve one claim after the other, until one fails; create one last if one is needed."""
        uid, attempt = action.uid, action.attempt
        claims: tuple[ResourceClaim, ...] = ()
        created = (action.extended,) if action.extended is not None else ()
        for one in (*action.claims, *created):
            try:
                is_new = isinstance(one, CreateClaim)
                claims += (await (self._create if is_new else self._reserve)(action, one),)
            except NotLeading:
                return ClaimsReserved(uid, attempt, claims, is_unsent=True)
            except (_Changed, ApiError, Unreachable, *UNREADABLE) as error:
                said = error.message if isinstance(error, ApiError) else str(error)
                log.warning("claim not reserved", claim=one.key, problem=said)
                return ClaimsReserved(uid, attempt, claims, f"claim {one.key}: {said}")
        return ClaimsReserved(uid, attempt, claims)

    async def _reserve(self, action: ReserveClaims, one: ReserveClaim) -> ResourceClaim:
        version, finalizers = one.version, one.finalizers
        refusals = 0
        while True:
            try:
                if not one.is_allocated and CLAIM_FINALIZER not in finalizers:
                    seen = await self._requests.protect(one, version, finalizers)
                    version, finalizers = seen.version, seen.finalizers
                allocation = None if one.is_allocated else one.allocation
                body = claim_patch.reservation_patch(
                    one.uid, version, action.pod_name, action.uid, allocation
                )
                return await self._requests.write_status(one, body)
            except ApiError as error:
                refusals += 1
                if error.status != 409 or refusals == TRIES:
                    raise
            seen = await self._requests.read(one)
            if _is_reserved(seen, action.uid, one):
                return seen  # the answer to an earlier request was lost
            _check(seen, one)
            version, finalizers = seen.version, seen.finalizers

    async def _create(self, action: ReserveClaims, one: CreateClaim) -> ResourceClaim:
        """Create, allocate and reserve the claim for extended resources, then tell the kubelet."""
        made = await self._made(action, one)
        claim = ReserveClaim(
            *(one.namespace, one.name, made.uid, made.version, one.allocation),
            finalizers=made.finalizers,
        )
        reserved = await self._reserve(action, claim)
        body = extended_claim.status_patch(action.uid, one.name, one.asked)
        path = extended_claim.pod_path(one.namespace, action.pod_name) + "/status"
        await self._requests.send("PATCH", path, body, STRATEGIC_PATCH)
        return reserved

    async def _made(self, action: ReserveClaims, one: CreateClaim) -> ResourceClaim:
        body = extended_claim.new_claim(one, action.pod_name, action.uid)
        try:
            path = extended_claim.claims_path(one.namespace)
            return self._requests.decode(await self._requests.send("POST", path, body, JSON))
        except ApiError as error:
            if error.status != 409:
                raise
        made = await self._requests.read(one)
        if not extended_claim.is_own(made, action.uid):
            raise _Changed("another claim has its name")
        return made  # the answer to an earlier request was lost

    # --- releasing ---------------------------------------------------------------------------

    async def release_all(self, action: ReleaseClaims) -> ClaimsReleased:
        """Release one claim after the other, as far as possible; delete the created one last."""
        claims: tuple[ResourceClaim, ...] = ()
        for one in action.claims:
            try:
                found = await self._release(one, action)
            except NotLeading:
                break
            except (ApiError, Unreachable, *UNREADABLE) as error:
                # kube-controller-manager removes reservations of pods that are gone; a pod that
                # is decided again finds its claim reserved already.
                log.warning("claim not released", claim=one.key, problem=str(error))
            else:
                claims += (found,) if found is not None else ()
        if action.created is not None:
            await self._delete(action, action.created)
        return ClaimsReleased(action.uid, claims)

    async def _release(self, one: ClaimRef, action: ReleaseClaims) -> ResourceClaim | None:
        """The claim afterwards; None if it is gone."""
        body = claim_patch.release_patch(one.uid, action.uid)
        for attempt in range(TRIES):
            try:
                found = await self._requests.write_status(one, body)
                return await self._deallocate(one, found) if action.deallocate else found
            except ApiError as error:
                if error.status == 404:
                    return None
                if error.status != 409 or attempt + 1 == TRIES:
                    raise
            # Another write came between, or another claim has its name.
            if (await self._requests.read(one)).uid != one.uid:
                return None
        return None

    async def _deallocate(self, one: ClaimRef, found: ResourceClaim) -> ResourceClaim:
        """Deallocate a claim, unless something has reserved it."""
        for _ in range(TRIES):
            if found.allocation is None or found.reserved_for:
                break
            body = claim_patch.deallocation_patch(one.uid, found.version)
            try:
                return await self._requests.write_status(one, body)
            except ApiError as error:
                if error.status != 409:
                    raise
            found = await self._requests.read(one)
        return found

    async def _delete(self, action: ReleaseClaims, one: CreatedClaim) -> None:
        """Delete the claim that was created for a pod, unless it is bound: a former leader may have
        sent its Binding.

        Its devices are free at once. kube-controller-manager takes away the finalizer. The API
        server does not let the claim's name be taken from the pod's status.
        """
        path = claim_patch.claim_path(one.namespace, one.name)
        try:
            claim = await self._requests.read(one)
            if not extended_claim.is_own(claim, action.uid) or await self._is_bound(action, one):
                return
            ref = ClaimRef(one.namespace, one.name, claim.uid)
            await self._release(ref, msgspec.structs.replace(action, deallocate=True))
            body = msgspec.json.encode({"preconditions": {"uid": claim.uid}})
            await self._requests.send("DELETE", path, body, JSON)
        except NotLeading:
            return
        except (ApiError, Unreachable, *UNREADABLE) as error:
            if not isinstance(error, ApiError) or error.status not in (404, 409):
                log.warning("claim not deleted", claim=one.key, problem=str(error))

    async def _is_bound(self, action: ReleaseClaims, one: CreatedClaim) -> bool:
        path = extended_claim.pod_path(one.namespace, one.pod_name)
        try:
            return extended_claim.is_bound(await self._requests.send("GET", path), action.uid)
        except ApiError as error:
            if error.status != 404:
                raise
            return False


def _is_reserved(seen: ResourceClaim, pod_uid: str, one: ReserveClaim) -> bool:
    return seen.is_reserved_for(pod_uid) and _has(seen, one.allocation)


def _check(seen: ResourceClaim, one: ReserveClaim) -> None:
    """Raise if a claim may not be written as it was decided."""
    if seen.uid != one.uid:
        raise _Changed("it was replaced by another claim of the same name")
    if seen.is_deleting:
        raise _Changed("it is being deleted")
    if seen.unread:
        raise _Changed(f"it cannot be read: {seen.unread}")
    if not one.is_allocated and seen.allocation is not None:
        raise _Changed("it was allocated by another scheduler in the meantime")
    if one.is_allocated and not _has(seen, one.allocation):
        raise _Changed("it was deallocated in the meantime")


def _has(seen: ResourceClaim, allocation: Allocation) -> bool:
    """Whether a claim has the devices and shares of an allocation."""

    def devices(one: Allocation) -> list[object]:
        return [(result.request, result.id, result.share_id) for result in one.results]

    return seen.allocation is not None and devices(seen.allocation) == devices(allocation)
