"""Storage objects of the input: claims, volumes, classes and what CSI drivers say of nodes.

Claims that are not in the input restrict no node: in a cluster a StatefulSet's controller, or the
user, creates them before the pod is scheduled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gpuctl.simulate.decode import decoded
from gpuctl.simulate.manifests import Document, text_of
from scheduler.model.pods.pod import Pod
from scheduler.model.volumes.pod_volumes import PodVolumes
from scheduler.state import event as ev
from scheduler.state.volumes.store import VolumeStore
from scheduler.watch.decode import csi, volumes
from scheduler.watch.decode.object_decoder import ObjectDecoder

KINDS: Final = {
    "PersistentVolumeClaim": "v1",
    "PersistentVolume": "v1",
    **dict.fromkeys(
        ("StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
        "storage.k8s.io/v1",
    ),
}
_DECODERS: Final[dict[str, ObjectDecoder[Any]]] = {
    "PersistentVolumeClaim": volumes.CLAIMS,
    "PersistentVolume": volumes.VOLUMES,
    "StorageClass": csi.CLASSES,
    "CSINode": csi.CSI_NODES,
    "CSIDriver": csi.CSI_DRIVERS,
    "CSIStorageCapacity": csi.CAPACITIES,
    "VolumeAttachment": csi.ATTACHMENTS,
}


def to_event(document: Document, namespace: str) -> ev.StorageUpdated:
    """The event of a storage object; ``namespace`` is used where it names none."""
    meta = {**document.metadata}
    if document.kind in ("PersistentVolumeClaim", "CSIStorageCapacity"):
        meta["namespace"] = text_of(meta.get("namespace")) or namespace
    if document.kind == "PersistentVolumeClaim":
        meta.setdefault("uid", f"{meta['namespace']}/{document.name}")
    raw = {**document.raw, "metadata": meta}
    if document.kind == "PersistentVolume":
        # kube-controller-manager makes a new volume available; in a manifest it has no status.
        raw.setdefault("status", {"phase": "Available"})
    return ev.StorageUpdated(decoded(_DECODERS[document.kind], raw, document))


def unknown_claims(store: VolumeStore, pod: Pod) -> Iterator[str]:
    """The claims of a pod that the input does not have."""
    for key in pod.claims:
        if store.claim(key) is None:
            yield key


def with_known_claims(store: VolumeStore, pod: Pod) -> Pod:
    """The pod without the claims that the input does not have."""
    missing = set(unknown_claims(store, pod))
    if not missing:
        return pod
    uses = zip(pod.volumes.claims, pod.claims, strict=True)
    kept = tuple(use for use, key in uses if key not in missing)
    return msgspec.structs.replace(pod, volumes=PodVolumes(kept, pod.volumes.disks))


def remark(missing: set[str]) -> list[str]:
    """What the simulation left out."""
    if not missing:
        return []
    return [
        f"{len(missing)} PersistentVolumeClaims are not in the input and restrict no node, such as"
        f" {min(missing)}"
    ]
