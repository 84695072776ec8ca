"""Reason codes about claims and volumes; every sentence begins with kube-scheduler's."""

from __future__ import annotations

from typing import Final

from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause

_CLAIM: Final = (RequeueCause.CLAIM,)
_PLACE: Final = (RequeueCause.CLAIM, RequeueCause.STORAGE, RequeueCause.NODE)
_WAITS: Final = ConditionReason.WAITING_FOR_VOLUME

CLAIM_NOT_FOUND = ReasonCode(
    name="CLAIM_NOT_FOUND",
    meaning="a PersistentVolumeClaim that the pod names does not exist",
    lifted_by=_CLAIM,
    stage="VolumeBinding",
    next_step="create the PersistentVolumeClaim in the namespace of the pod",
    words=(
        r'persistentvolumeclaim "[^"]+" (not found|cannot be read)',
        r"waiting for ephemeral volume controller to create the persistentvolumeclaim",
    ),
    condition=_WAITS,
)
CLAIM_NOT_USABLE = ReasonCode(
    name="CLAIM_NOT_USABLE",
    meaning="a PersistentVolumeClaim of the pod is being deleted, has lost its volume or belongs to"
    " another pod",
    lifted_by=_CLAIM,
    stage="VolumeBinding",
    next_step="delete the PersistentVolumeClaim, and create it again under the same name",
    words=(
        r'persistentvolumeclaim "[^"]+" (is being deleted|bound to non-existent)',
        r"PVC \S+ was not created for pod",
    ),
    condition=_WAITS,
)
CLAIM_NOT_BOUND = ReasonCode(
    name="CLAIM_NOT_BOUND",
    meaning="a PersistentVolumeClaim that is bound without regard to its pods is not bound yet",
    lifted_by=(RequeueCause.CLAIM, RequeueCause.STORAGE),
    stage="VolumeBinding",
    next_step="read kubectl describe pvc NAME; create the StorageClass or a PersistentVolume",
    words=(r"pod has unbound immediate PersistentVolumeClaims",),
    condition=_WAITS,
)
CLAIM_IN_USE = ReasonCode(
    name="CLAIM_IN_USE",
    meaning="another pod uses a PersistentVolumeClaim with the access mode ReadWriteOncePod",
    lifted_by=_CLAIM,
    stage="VolumeRestrictions",
    next_step="delete the other pod, or use a claim with the access mode ReadWriteOnce",
    words=(r"node\(s\) unavailable due to PersistentVolumeClaim with ReadWriteOncePod",),
    condition=_WAITS,
)
DISK_IN_USE = ReasonCode(
    name="DISK_IN_USE",
    meaning="a pod on the node mounts the same disk, and not both mount it read-only",
    lifted_by=(RequeueCause.FREED, RequeueCause.NODE),
    stage="VolumeRestrictions",
    next_step="delete the other pod, or mount the disk read-only in both pods",
    words=(r"node\(s\) had no available disk",),
)
VOLUME_LIMIT = ReasonCode(
    name="VOLUME_LIMIT",
    meaning="the CSI driver of a volume cannot attach more volumes to the node",
    lifted_by=(RequeueCause.FREED, RequeueCause.NODE, *_PLACE[:2]),
    stage="NodeVolumeLimits",
    next_step="delete pods with volumes on the node, or add a node",
    words=(r"node\(s\) exceed max volume count",),
)
CSI_DRIVER_MISSING = ReasonCode(
    name="CSI_DRIVER_MISSING",
    meaning="the node does not have the CSI driver of a volume",
    lifted_by=_PLACE,
    stage="NodeVolumeLimits",
    next_step="install the CSI driver on the node: kubectl get csinode NODE -o yaml",
    words=(r"\S+ CSI driver is not installed on the node",),
)
VOLUME_NOT_FOUND = ReasonCode(
    name="VOLUME_NOT_FOUND",
    meaning="a PersistentVolumeClaim of the pod is bound to a PersistentVolume that does not exist",
    lifted_by=(RequeueCause.CLAIM, RequeueCause.STORAGE),
    stage="VolumeZone",
    next_step="delete the PersistentVolumeClaim, and create it again",
    words=(
        r'persistentvolume "[^"]+" (not found|cannot be read)',
        r"node\(s\) unavailable due to one or more pvc\(s\) bound to non-existent pv\(s\)",
    ),
    condition=_WAITS,
)
VOLUME_AFFINITY = ReasonCode(
    name="VOLUME_AFFINITY",
    meaning="a PersistentVolume of the pod cannot be used on the node",
    lifted_by=_PLACE,
    stage="VolumeBinding",
    next_step="read the nodes of the volume: kubectl get pv NAME -o yaml; use another claim",
    words=(r"node\(s\) didn't match PersistentVolume's node affinity(?!: the map)",),
)
VOLUME_ZONE = ReasonCode(
    name="VOLUME_ZONE",
    meaning="a PersistentVolume of the pod is in another zone or region than the node",
    lifted_by=_PLACE,
    stage="VolumeZone",
    next_step="compare kubectl get pv NAME --show-labels with the zone of the nodes",
    words=(r"node\(s\) had no available volume zone(?!: the map)",),
)
VOLUME_NOT_AVAILABLE = ReasonCode(
    name="VOLUME_NOT_AVAILABLE",
    meaning="no PersistentVolume on the node fits the claim, and none is provisioned there",
    lifted_by=_PLACE,
    stage="VolumeBinding",
    next_step="create a PersistentVolume for the node, or use a StorageClass with a provisioner",
    words=(r"node\(s\) didn't find available persistent volumes to bind",),
)
STORAGE_FULL = ReasonCode(
    name="STORAGE_FULL",
    meaning="no CSIStorageCapacity of the node has enough storage for the claim",
    lifted_by=_PLACE,
    stage="VolumeBinding",
    next_step="read kubectl get csistoragecapacities -A; request less storage, or add storage",
    words=(r"node\(s\) did not have enough free storage",),
)
MAP_AND_VOLUME = ReasonCode(
    name="MAP_AND_VOLUME",
    meaning="the map names a node on which a bound PersistentVolume of the pod cannot be used",
    lifted_by=(RequeueCause.POD, *_PLACE),
    stage="VolumeBinding",
    next_step="change the map to a node of the volume, or use another claim",
    words=(
        r"node\(s\) didn't match PersistentVolume's node affinity: the map",
        r"node\(s\) had no available volume zone: the map",
    ),
    condition=ConditionReason.INVALID_MAP,
)
