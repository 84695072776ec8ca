"""Stands for the volume controller and the provisioners: binds what kube-scheduler asked to bind.

kube-scheduler asks for it in two ways (``volumebinding/binder.go`` BindPodVolumes): it sets the
``claimRef`` of a volume, or the annotation ``selected-node`` of a claim.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from tests.differential import manifests
from tests.differential.live.mirror import Meta, Mirror
from tests.differential.live.writes import Writer
from tests.differential.manifests import key_of
from tests.differential.sequence import SetObject

Json = dict[str, Any]

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
SELECTED: Final = "volume.kubernetes.io/selected-node"
_POLL_S: Final = 0.05
_POLLS_MAX: Final = 600
COMPLETED: Final = "pv.kubernetes.io/bind-completed"


class VolumeController:
    """Acts on the claims of one pod while kube-scheduler waits for them."""

    def __init__(self, writer: Writer, mirror: Mirror) -> None:
        self._writer = writer
        self._mirror = mirror
        #: The keys of the claims of pods' ephemeral volumes, by the pods' keys.
        self._ephemeral: dict[str, list[str]] = {}

    async def create_for(self, body: Json, uid: str) -> bool:
        """Create the claims of a new pod's ephemeral volumes; returns whether it has any."""
        claims = manifests.ephemeral_claims(body, uid)
        for claim in claims:
            await self._writer.set_object(CLAIMS, claim)
        self._ephemeral[key_of(body)] = [key_of(one) for one in claims]
        return bool(claims)

    async def release(self, pod_key: str) -> None:
        """A pod is gone, and with it the claims of its ephemeral volumes."""
        for key in self._ephemeral.pop(pod_key, ()):
            await self._writer.delete_object(CLAIMS, key)

    def forget(self) -> None:
        """Another sequence begins."""
        self._ephemeral.clear()

    async def bind_claims_of(self, pod_key: str) -> tuple[SetObject, ...]:
        """Bind the claims of a pod as kube-scheduler asks for it, until the pod is bound; the
        objects as they are then."""
        done: list[SetObject] = []
        claims = await self._unbound_claims(pod_key)
        pods = self._mirror.objects["pods"]
        for _ in range(_POLLS_MAX if claims else 0):
            if pods[pod_key].spec.node_name:
                break
            for claim in claims:
                done += await self._bind(claim)
            await asyncio.sleep(_POLL_S)
        return tuple(self._short(one, pods[pod_key].metadata) for one in done)

    def _short(self, one: SetObject, pod: Meta) -> SetObject:
        """With the pod's name in the sequence, which is its uid in a replay."""
        short = pod.name.partition("-")[0]
        text = msgspec.json.encode(one.manifest).decode()
        for old in (pod.name, pod.uid):
            text = text.replace(old, short)
        return SetObject(one.kind, msgspec.json.decode(text))

    async def _unbound_claims(self, pod_key: str) -> list[str]:
        pod = await self._writer.read("pods", pod_key)
        namespace = pod["metadata"]["namespace"]
        named = [
            f"{namespace}/{one['persistentVolumeClaim']['claimName']}"
            for one in pod["spec"].get("volumes", ())
            if "persistentVolumeClaim" in one
        ]
        found = []
        for key in (*named, *self._ephemeral[pod_key]):
            claim = await self._writer.read(CLAIMS, key)
            if not claim["spec"].get("volumeName"):
                found.append(key)
        return found

    async def _bind(self, key: str) -> list[SetObject]:
        claim = await self._writer.read(CLAIMS, key)
        if claim["spec"].get("volumeName"):
            return []
        for name in list(self._mirror.objects[VOLUMES]):
            volume = await self._writer.read(VOLUMES, name)
            if volume["spec"].get("claimRef", {}).get("uid") == claim["metadata"]["uid"]:
                return await self._complete(claim, volume)
        if SELECTED not in claim["metadata"].get("annotations", {}):
            return []
        return await self._complete(claim, self._provisioned(key, claim))

    def _provisioned(self, key: str, claim: Json) -> Json:
        name = f"new-{key.replace('/', '-')}"
        spec: Json = {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "claimRef": _reference(claim),
            "volumeMode": claim["spec"]["volumeMode"],
        }
        return {"metadata": {"name": name}, "spec": spec}

    async def _complete(self, claim: Json, volume: Json) -> list[SetObject]:
        meta = claim["metadata"]
        bound_claim: Json = {
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "annotations": {**meta.get("annotations", {}), COMPLETED: "yes"},
                **({"ownerReferences": owners} if (owners := meta.get("ownerReferences")) else {}),
            },
            "spec": {**claim["spec"], "volumeName": volume["metadata"]["name"]},
            "status": {"phase": "Bound"},
        }
        bound_volume: Json = {
            "metadata": {
                key: volume["metadata"][key]
                for key in ("name", "labels")
                if key in volume["metadata"]
            },
            "spec": volume["spec"],
            "status": {"phase": "Bound"},
        }
        done = [SetObject(VOLUMES, bound_volume), SetObject(CLAIMS, bound_claim)]
        for one in done:
            await self._writer.set_object(one.kind, one.manifest)
        bound_volume["spec"] = manifests.with_claim_uid(bound_volume, None)["spec"]
        return done


def _reference(claim: Json) -> Json:
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
