"""Makes claims ready for containers and undoes it: checkpoint, CDI files, an answer for each claim.

What a device means to a container is its kind's to say (``Kind``); here is what holds for all of
them: the API server says what a claim was allocated, other drivers' devices in it are theirs to
prepare, and a claim that cannot be prepared spoils no other one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from fakegpu.dra.api_types import GROUP, Claim, Configured, Result, read_claim
from fakegpu.dra.cdi import COMMON, CdiDevice, CdiFolder
from fakegpu.dra.checkpoint import Checkpoint, HeldDevice, PreparedClaim, Unreadable
from fakegpu.dra.messages import ClaimName, Prepared, PreparedDevice, Unprepared
from scheduler.watch.client import ApiError, Client, Unreachable

log = structlog.get_logger("dra")


class NotPrepared(Exception):
    """A claim cannot be prepared; the text becomes an event of the pod."""


class Kind(Protocol):
    """What one driver's devices mean."""

    driver: str

    def common(self) -> CdiDevice:
        """What every container gets that has any device."""

    def equip(self, uid: str, result: Result, config: Sequence[Configured]) -> CdiDevice:
        """What a container gets with a device of a claim, or NotPrepared."""


class ClaimPreparer:
    """One driver's claims on one node, whose name is its pool's."""

    def __init__(
        self, client: Client, node: str, kind: Kind, cdi: CdiFolder, checkpoint: Checkpoint
    ) -> None:
        self._client = client
        self._node = node
        self._kind = kind
        self._cdi = cdi
        self._checkpoint = checkpoint
        self._one_at_a_time = asyncio.Lock()

    def begin(self) -> None:
        """Take up what was prepared before: its files are there, and no others."""
        try:
            self._checkpoint.load()
        except Unreadable as problem:
            log.error("prepared claims are not known, the kubelet asks again", problem=str(problem))
        self._cdi.keep((COMMON, *self._checkpoint.claims))
        self._cdi.write(COMMON, [self._kind.common()])
        for uid, claim in self._checkpoint.claims.items():
            self._write(uid, claim)

    async def prepare(self, name: ClaimName) -> Prepared:
        """The devices of a claim; the same ones whenever it is asked."""
        async with self._one_at_a_time:
            claim = self._checkpoint.claims.get(name.uid)
            try:
                if claim is None:
                    claim = await self._begun(name)
                    log.info("claim prepared", claim=f"{name.namespace}/{name.name}", uid=name.uid)
                elif not self._cdi.has(name.uid):
                    self._write(name.uid, claim)
            except (NotPrepared, ApiError, Unreachable, OSError) as problem:
                text = f"claim {name.namespace}/{name.name}: {problem}"
                log.warning("claim not prepared", problem=text)
                return Prepared(error=text)
            return Prepared(tuple(self._told(one) for one in claim.devices))

    async def unprepare(self, name: ClaimName) -> Unprepared:
        """Undo it; nothing where it is not prepared."""
        async with self._one_at_a_time:
            try:
                self._cdi.remove(name.uid)
                self._checkpoint.drop(name.uid)
            except OSError as problem:
                return Unprepared(f"claim {name.namespace}/{name.name}: {problem}")
            log.info("claim unprepared", claim=f"{name.namespace}/{name.name}", uid=name.uid)
            return Unprepared()

    async def _begun(self, name: ClaimName) -> PreparedClaim:
        claim = await self._allocated(name)
        ours = [
            one
            for one in claim.results
            if one.driver == self._kind.driver and one.pool == self._node
        ]
        if not ours:
            raise NotPrepared(
                f"no device of {self._kind.driver} on node {self._node} is allocated to it"
            )
        held = tuple(self._held(name.uid, one, claim.config) for one in ours)
        prepared = PreparedClaim(name.namespace, name.name, held)
        # First the file: what is in the checkpoint can be used.
        self._write(name.uid, prepared)
        self._checkpoint.put(name.uid, prepared)
        return prepared

    async def _allocated(self, name: ClaimName) -> Claim:
        path = f"{GROUP}/namespaces/{name.namespace}/resourceclaims/{name.name}"
        claim = read_claim(await self._client.request("GET", path))
        if claim.metadata.uid != name.uid:
            raise NotPrepared("there is another claim of this name now")
        return claim

    def _held(self, uid: str, result: Result, config: Sequence[Configured]) -> HeldDevice:
        cdi = self._kind.equip(uid, result, config)
        return HeldDevice(result.request, result.pool, result.device, cdi, result.share_id or "")

    def _write(self, uid: str, claim: PreparedClaim) -> None:
        self._cdi.write(uid, [one.cdi for one in claim.devices])

    def _told(self, one: HeldDevice) -> PreparedDevice:
        references = (self._cdi.reference(COMMON), self._cdi.reference(one.cdi.name))
        return PreparedDevice((one.request,), one.pool, one.device, references, one.share_id)
