"""Stands for kube-controller-manager: creates the claims of pods from their templates, and
deallocates claims that no pod uses any more (``pkg/controller/resourceclaim``).

The claims are those of a real API server, as JSON: kube-scheduler is compared on them. On values of
the model ``gpuctl/simulate/claim_changes`` has the same rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from tests.differential.dra import objects
from tests.differential.dra.objects import CLAIMS, EXTENDED
from tests.differential.live.mirror import Mirror
from tests.differential.live.writes import Writer
from tests.differential.manifests import key_of
from tests.differential.sequence import AllocateClaim, Workload

Json = dict[str, Any]

#: A claim that is not allocated.
_FREE: Final = {"allocation": None, "reservedFor": None, "devices": None}


class Deallocated(Exception):
    """kube-scheduler gave up a claim of a rejected pod too early for a comparison."""


class _Claims(msgspec.Struct):
    """The claims of one pod by their keys: its own ones, and others that it names."""

    uid: str
    own: list[str]
    named: list[str]


class ClaimController:
    """Acts on the claims of one pod at a time."""

    def __init__(self, writer: Writer, mirror: Mirror) -> None:
        self._writer = writer
        self._mirror = mirror
        self._pods: dict[str, _Claims] = {}

    async def create_for(
        self,
        body: Json,
        uid: str,
        workload: Workload,
        both_have_seen: Callable[[], Awaitable[None]],
    ) -> None:
        """Create the claims of a new pod, and name them in its status."""
        pod = {**body, "metadata": {**body["metadata"], "uid": uid}}
        named, templates = objects.named_claims(body), workload.templates
        found = self._pods[key_of(body)] = _Claims(uid, [], named)
        if not templates:
            return
        for claim in objects.created(pod, templates):
            await self._writer.set_object(CLAIMS, claim)
            found.own.append(key_of(claim))
        await both_have_seen()
        status = objects.statuses(body["metadata"]["name"], templates)
        await self._writer.set_status("pods", {"metadata": body["metadata"], "status": status})

    def forget(self) -> None:
        """Another sequence begins."""
        self._pods.clear()

    async def allocated(self, pod_key: str) -> tuple[AllocateClaim, ...]:
        """What kube-scheduler wrote into the claims of a pod that it has bound."""
        claims = self._pods[pod_key]
        extended = ""
        if self._mirror.side.cluster.dra.extended.classes:
            pod = await self._writer.read("pods", pod_key)
            named = pod["status"].get("extendedResourceClaimStatus")
            if named is not None:
                extended = f"{pod_key.partition('/')[0]}/{named['resourceClaimName']}"
                claims.own.append(extended)
        return await self._effects(pod_key, (*claims.named, *claims.own), extended)

    async def deallocated(self, pod_key: str) -> tuple[AllocateClaim, ...]:
        """The claims that a rejected pod names: kube-scheduler may have deallocated one."""
        known = self._mirror.objects[CLAIMS]
        named = (key for key in self._pods[pod_key].named if key in known)
        return await self._effects(pod_key, tuple(named))

    async def allocated_of(self, body: Json) -> list[Json]:
        """The claims that a new pod names and that are allocated."""
        known = [key for key in objects.named_claims(body) if key in self._mirror.objects[CLAIMS]]
        every = [await self._writer.read(CLAIMS, key) for key in known]
        return [one for one in every if _is_allocated(one)]

    def check_seen(self, allocated: list[Json]) -> None:
        """Raise Deallocated if our side answered after kube-scheduler."""
        for one in allocated:
            claim = self._mirror.side.cluster.dra.claim(key_of(one))
            if claim is None or claim.allocation is None:
                raise Deallocated

    async def check(self, allocated: list[Json]) -> None:
        """Raise Deallocated if kube-scheduler rejected the pod, and tried it again before its
        rejection was seen."""
        for one in allocated:
            if not _is_allocated(await self._writer.read(CLAIMS, key_of(one))):
                raise Deallocated

    async def restore(self, allocated: list[Json]) -> None:
        """Allocate the claims as they were."""
        for one in allocated:
            await self._writer.set_status(CLAIMS, one)

    async def _effects(
        self, pod_key: str, keys: tuple[str, ...], extended: str = ""
    ) -> tuple[AllocateClaim, ...]:
        """The claims as they are now; our watch has seen them then."""
        effects = []
        for key in keys:
            claim = await self._writer.read(CLAIMS, key)
            version = int(claim["metadata"]["resourceVersion"])
            await self._mirror.has_version(CLAIMS, key, version)
            self._writer.written.add(CLAIMS)
            pod_name = pod_key.partition("/")[2]
            effects.append(_effect(claim, pod_name, is_extended=key == extended))
        return tuple(effects)

    async def release(self, pod_key: str) -> None:
        """A pod is gone: delete its own claims, and deallocate what no other pod has reserved."""
        claims = self._pods.pop(pod_key, None)
        if claims is None:
            return
        for key in claims.own:
            await self._writer.delete_object(CLAIMS, key)
        for key in claims.named:
            if key in self._mirror.objects[CLAIMS]:
                await self._unreserve(key, claims.uid)

    async def _unreserve(self, key: str, uid: str) -> None:
        claim = await self._writer.read(CLAIMS, key)
        users = claim.get("status", {}).get("reservedFor", [])
        left = [one for one in users if one["uid"] != uid]
        if len(left) != len(users):
            status = {"reservedFor": left} if left else _FREE
            await self._writer.set_status(CLAIMS, {**claim, "status": status})

    async def delete(self, key: str) -> None:
        """Delete a claim that no pod has reserved."""
        if key in self._mirror.objects[CLAIMS]:
            claim = await self._writer.read(CLAIMS, key)
            users = {one["uid"] for one in claim.get("status", {}).get("reservedFor", ())}
            if not users & {one.uid for one in self._pods.values()}:
                await self._writer.delete_object(CLAIMS, key)


def _is_allocated(claim: Json) -> bool:
    return "allocation" in claim.get("status", {})


def _effect(claim: Json, pod_name: str, *, is_extended: bool) -> AllocateClaim:
    """With the names of the sequence."""
    meta, status = claim["metadata"], claim.get("status", {})
    name = pod_name.partition("-")[0]
    short = f"{name}-{EXTENDED}" if is_extended else meta["name"].replace(pod_name, name, 1)
    users = tuple(one["name"].partition("-")[0] for one in status.get("reservedFor", ()))
    return AllocateClaim(f"{meta['namespace']}/{short}", _short(status.get("allocation")), users)


def _short(allocation: Json | None) -> Json | None:
    """The parts of an allocation that decisions read."""
    if allocation is None:
        return None
    kept = ("request", "driver", "pool", "device", "adminAccess", "shareID", "consumedCapacity")
    results = allocation["devices"].get("results", ())
    found: Json = {
        "devices": {"results": [{key: one[key] for key in kept if key in one} for one in results]}
    }
    if "nodeSelector" in allocation:
        found["nodeSelector"] = allocation["nodeSelector"]
    return found
