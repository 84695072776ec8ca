"""Single requests about ResourceClaims; a server that is busy is asked again.

A write has the term of its decision in the name of its field manager, because the API server drops
metadata from writes of a status; a policy (``cluster/fencing-policy.yaml``) compares it with the
lease.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.bind import claim_patch, claim_protobuf
from scheduler.bind.busy_server import repeat_while_busy
from scheduler.model.actions import ClaimRef, CreateClaim, CreatedClaim, ReserveClaim
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.lease import DecisionTerm, LeaderTerm
from scheduler.watch.client import JSON, MERGE_PATCH, STRATEGIC_PATCH, ApiError, Client

TRIES: Final = 5


def field_manager(epoch: int) -> str:
    """The name under which a leader writes claims.

    >>> field_manager(7)
    'gpu-scheduler-term-7'
    """
    return f"gpu-scheduler-term-{epoch}"


class ClaimRequests:
    """Requests of the leader in its current term; ``decode`` reads a claim from an answer."""

    def __init__(
        self,
        client: Client,
        term: LeaderTerm,
        decode: Callable[[bytes], ResourceClaim],
        pause_first_s: float,
    ) -> None:
        self._client = client
        self._term = DecisionTerm(term)
        self._decode = decode
        self._pause_first_s = pause_first_s

    def decode(self, content: bytes) -> ResourceClaim:
        """The claim in an answer."""
        return self._decode(content)

    async def protect(
        self, one: ReserveClaim, version: str, finalizers: tuple[str, ...]
    ) -> ResourceClaim:
        """Add the finalizer."""
        path = claim_patch.claim_path(one.namespace, one.name)
        body = claim_patch.finalizer_patch(one.uid, version, finalizers)
        try:
            content = await self.send("PATCH", path, body, MERGE_PATCH)
        except ApiError as error:
            if error.status != 422:
                raise
            content = await self._protect_exactly(path, version)
        return self._decode(content)

    async def _protect_exactly(self, path: str, version: str) -> bytes:
        """The same without a change of the claim's configuration (``claim_protobuf``)."""
        kind = claim_protobuf.CONTENT_TYPE
        content = await self.send("GET", path, accept=kind)
        if claim_protobuf.version_of(content) != version:
            raise ApiError(409, "the object has been modified", "Conflict")
        body = claim_protobuf.with_finalizer(content)
        return await self.send("PUT", path, body, kind)

    async def write_status(self, one: ReserveClaim | ClaimRef, body: bytes) -> ResourceClaim:
        """Patch the status of a claim."""
        path = claim_patch.claim_path(one.namespace, one.name) + "/status"
        return self._decode(await self.send("PATCH", path, body, STRATEGIC_PATCH))

    async def read(
        self, one: ReserveClaim | CreateClaim | ClaimRef | CreatedClaim
    ) -> ResourceClaim:
        """A claim as it is now."""
        path = claim_patch.claim_path(one.namespace, one.name)
        return self._decode(await self.send("GET", path))

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> bytes:
        """The answer; a server that is busy is asked again."""
        epoch = self._term.epoch
        term = None if epoch is None else {"fieldManager": field_manager(epoch)}
        return await repeat_while_busy(
            lambda: self._client.request(
                *(method, path, body),
                params=None if body is None else term,
                content_type=content_type,
                accept=accept,
            ),
            self._term.lasts,
            tries=TRIES,
            pause_first_s=self._pause_first_s,
        )
