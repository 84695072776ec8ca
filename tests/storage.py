"""Builders of storage objects: each writes the API's JSON and lets the product's decoder read it.

``*_json`` is what a test sends to a real API server; the function without the suffix is what the
watch delivers of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from scheduler.model import well_known
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.csi_volume import BY_FIELD
from scheduler.model.volumes.persistent_volume import PersistentVolume
from scheduler.model.volumes.storage import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from scheduler.watch.decode import csi as of_csi
from scheduler.watch.decode import volumes as decode
from scheduler.watch.decode.object_decoder import ObjectDecoder

Json = dict[str, Any]
T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"


def uses(*claims: str, ephemeral: Sequence[str] = (), class_name: str = "local") -> Json:
    """The part of a pod's spec that mounts claims; ``ephemeral`` are names of volumes."""
    named = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    asked = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class_name}
    template: Json = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], **asked}}}
    return {"volumes": [*named, *({"name": one, "ephemeral": template} for one in ephemeral)]}


def _meta(name: str, **more: Any) -> Json:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **more}


def claim_json(
    name: str = "data",
    *,
    namespace: str = "team",
    storage: str = "1Gi",
    class_name: str | None = "local",
    modes: Sequence[str] = ("ReadWriteOnce",),
    volume: str = "",
    selected: str | None = None,
    owner: str = "",
    deleting: bool = False,
    phase: str = "",
    version: str = "1",
    **spec: Any,
) -> Json:
    """A claim; with ``volume`` it is bound to that."""
    annotations = {BOUND: "yes"} if volume else {}
    if selected is not None:
        annotations[SELECTED] = selected
    meta = _meta(name, namespace=namespace, annotations=annotations, resourceVersion=version)
    if owner:
        meta["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}]
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": {
            "accessModes": list(modes),
            "resources": {"requests": {"storage": storage}},
            "storageClassName": class_name,
            "volumeName": volume,
            **spec,
        },
        "status": {"phase": phase or ("Bound" if volume else "Pending")},
    }


def claim(name: str = "data", **more: Any) -> Claim:
    """The same as the model has it."""
    return _as(Claim, decode.CLAIMS, claim_json(name, **more))


def volume_json(
    name: str = "pv",
    *,
    storage: str = "1Gi",
    class_name: str = "local",
    modes: Sequence[str] = ("ReadWriteOnce",),
    host: str = "",
    zone: str = "",
    for_claim: str = "",
    claim_uid: str = "",
    phase: str = "",
    labels: Mapping[str, str] | None = None,
    version: str = "1",
    deleting: bool = False,
    **spec: Any,
) -> Json:
    """A volume on one host, in one zone, or anywhere; ``for_claim`` is ``namespace/name``."""
    values = {HOSTNAME: host, ZONE: zone}
    wanted = [{"key": k, "operator": "In", "values": [v]} for k, v in values.items() if v]
    if wanted:
        terms = [{"matchExpressions": wanted}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if for_claim:
        namespace, _, claim_name = for_claim.partition("/")
        reference = {"namespace": namespace, "name": claim_name}
        spec["claimRef"] = reference | ({"uid": claim_uid} if claim_uid else {})
    if "csi" not in spec and not any(key in BY_FIELD for key in spec):
        spec["hostPath"] = {"path": "/tmp/volume"}  # noqa: S108 - no test writes there
    meta = _meta(name, labels=dict(labels or {}), resourceVersion=version)
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta,
        "spec": {
            "capacity": {"storage": storage},
            "accessModes": list(modes),
            "storageClassName": class_name,
            **spec,
        },
        "status": {"phase": phase or ("Bound" if claim_uid else "Available")},
    }


def volume(name: str = "pv", **more: Any) -> PersistentVolume:
    """The same as the model has it."""
    return _as(PersistentVolume, decode.VOLUMES, volume_json(name, **more))


def csi(driver: str, handle: str) -> Json:
    """The source of a CSI volume, for ``volume(**csi(...))``."""
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def class_json(
    name: str = "local",
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    delayed: bool = True,
    zones: Sequence[str] = (),
) -> Json:
    """A class whose claims wait for their first pod; ``zones`` are the allowed topologies."""
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": _meta(name),
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if delayed else "Immediate",
        **({"allowedTopologies": terms} if zones else {}),
    }


def storage_class(name: str = "local", **more: Any) -> StorageClass:
    """The same as the model has it."""
    return _as(StorageClass, of_csi.CLASSES, class_json(name, **more))


def csi_node(
    name: str = "n1", limits: Mapping[str, int | None] | None = None, *, migrated: str = ""
) -> CsiNode:
    """The drivers of a node with their limits."""
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": {"count": count}}
        for driver, count in (limits or {}).items()
    ]
    meta = _meta(name, annotations={well_known.MIGRATED_PLUGINS: migrated} if migrated else {})
    return _as(CsiNode, of_csi.CSI_NODES, {"metadata": meta, "spec": {"drivers": drivers}})


def csi_driver(name: str, *, capacity: bool = False, required: bool = False) -> CsiDriver:
    """A CSI driver."""
    spec = {"storageCapacity": capacity, "preventPodSchedulingIfMissing": required}
    return _as(CsiDriver, of_csi.CSI_DRIVERS, {"metadata": _meta(name), "spec": spec})


def capacity(
    name: str = "c",
    *,
    class_name: str = "fast",
    zone: str | None = None,
    free: str | None = None,
    largest: str | None = None,
) -> StorageCapacity:
    """The storage that is left in a zone, or nowhere."""
    content = {
        "metadata": _meta(name, namespace="kube-system"),
        "storageClassName": class_name,
        "capacity": free,
        "maximumVolumeSize": largest,
        "nodeTopology": {"matchLabels": {ZONE: zone}} if zone is not None else None,
    }
    return _as(StorageCapacity, of_csi.CAPACITIES, content)


def attachment(
    name: str = "va", *, node: str = "n1", driver: str = "", volume: str = ""
) -> VolumeAttachment:
    """A volume that is attached to a node."""
    source = {"persistentVolumeName": volume}
    spec = {"attacher": driver, "nodeName": node, "source": source}
    return _as(VolumeAttachment, of_csi.ATTACHMENTS, {"metadata": _meta(name), "spec": spec})


def _as(kind: type[T], decoder: ObjectDecoder[T], content: Json) -> T:
    event: Any = decoder.event(msgspec.json.encode(content), False)
    assert isinstance(event.item, kind)
    return event.item
