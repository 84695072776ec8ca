"""Prepares and unprepares ResourceClaims: checkpoint, CDI files, one response per claim.

``Kind`` decides the container edits of a device. Common to all kinds: the API server has a claim's
allocation, other drivers prepare their own devices of it, and a claim that cannot be prepared does
not affect the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from fakegpu.dra.api_types import GROUP, Claim, Configured, Result, read_claim
from fakegpu.dra.cdi import COMMON, CdiDevice, CdiFolder
from fakegpu.dra.checkpoint import Checkpoint, HeldDevice, PreparedClaim, Unreadable
from fakegpu.kubelet import dra_pb2 as kubelet
from scheduler.watch.client import ApiError, Client, Unreachable

log = structlog.get_logger("dra")


class NotPrepared(Exception):
    """A claim cannot be prepared; the text becomes an event of the pod."""


class Kind(Protocol):
    """The devices of one driver."""

    driver: str

    def common(self) -> CdiDevice:
        """The edits of every container with a device."""

    def equip(self, uid: str, result: Result, config: Sequence[Configured]) -> CdiDevice:
        """The edits of a container with a device of a claim, or NotPrepared."""


class ClaimPreparer:
    """One driver's claims on one node, which is also the name of its pool."""

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
        """Restore the prepared claims: write their CDI files, delete all others."""
        try:
            self._checkpoint.load()
        except Unreadable as problem:
            log.error("checkpoint unreadable, claims are prepared again", problem=str(problem))
        self._cdi.keep((COMMON, *self._checkpoint.claims))
        self._cdi.write(COMMON, [self._kind.common()])
        for uid, claim in self._checkpoint.claims.items():
            self._write(uid, claim)

    async def prepare(self, name: kubelet.Claim) -> kubelet.NodePrepareResourceResponse:
        """The devices of a claim; the same at every call."""
        async with self._one_at_a_time:
            claim = self._checkpoint.claims.get(name.uid)
            try:
                if claim is None:
                    claim = await self._prepare_new(name)
                    log.info("claim prepared", claim=f"{name.namespace}/{name.name}", uid=name.uid)
                elif not self._cdi.has(name.uid):
                    self._write(name.uid, claim)
            except (NotPrepared, ApiError, Unreachable, OSError) as problem:
                text = f"claim {name.namespace}/{name.name}: {problem}"
                log.warning("claim not prepared", problem=text)
                return kubelet.NodePrepareResourceResponse(error=text)
            return kubelet.NodePrepareResourceResponse(
                devices=[self._message(device) for device in claim.devices]
            )

    async def unprepare(self, name: kubelet.Claim) -> kubelet.NodeUnprepareResourceResponse:
        """Undo the preparation; no effect if the claim is not prepared."""
        async with self._one_at_a_time:
            try:
                self._cdi.remove(name.uid)
                self._checkpoint.drop(name.uid)
            except OSError as problem:
                error = f"claim {name.namespace}/{name.name}: {problem}"
                return kubelet.NodeUnprepareResourceResponse(error=error)
            log.info("claim unprepared", claim=f"{name.namespace}/{name.name}", uid=name.uid)
            return kubelet.NodeUnprepareResourceResponse()

    async def _prepare_new(self, name: kubelet.Claim) -> PreparedClaim:
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
        # The file first: a claim in the checkpoint must be usable.
        self._write(name.uid, prepared)
        self._checkpoint.put(name.uid, prepared)
        return prepared

    async def _allocated(self, name: kubelet.Claim) -> Claim:
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

    def _message(self, device: HeldDevice) -> kubelet.Device:
        return kubelet.Device(
            request_names=[device.request],
            pool_name=device.pool,
            device_name=device.device,
            cdi_device_ids=[self._cdi.reference(COMMON), self._cdi.reference(device.cdi.name)],
            share_id=device.share_id or None,
        )
