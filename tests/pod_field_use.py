"""How this scheduler treats every field of a pod spec: the table behind the promise of no surprise.

Each property of ``PodSpec``, and of every object inside that matters to placement, is one of:

* used         we read it (an object: its properties have rows of their own)
* irrelevant   it does not change the choice of a node in kube-scheduler either
* unsupported  there are values that we reject with a reason, see ``model/pods/pod_fields.py``
* unread       no code reads it, because what it is about does not exist here

The names come from the OpenAPI documents of the API server
(``gpuctl/simulate/validation/api_fields.json``); a property without a row fails a test.
"Irrelevant" and "unsupported" were decided by reading what the plugins under
``pkg/scheduler/framework/plugins`` of Kubernetes 1.37.2 look at.

Must never: be consulted for a decision; it documents, the code in podfields decides.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class Use(enum.Enum):
    """The treatment of a field."""

    USED = "used"
    IRRELEVANT = "irrelevant"
    UNSUPPORTED = "unsupported"
    UNREAD = "unread"


def _rows(
    *,
    used: str = "",
    irrelevant: str = "",
    unsupported: str = "",
    unread: str = "",
) -> dict[str, Use]:
    """One row per name; a name in two lists is a mistake."""
    lists = (
        (Use.USED, used),
        (Use.IRRELEVANT, irrelevant),
        (Use.UNSUPPORTED, unsupported),
        (Use.UNREAD, unread),
    )
    pairs = [(name, use) for use, names in lists for name in names.split()]
    rows = dict(pairs)
    assert len(rows) == len(pairs), f"a field is classified twice: {pairs}"
    return rows


_POD_SPEC: Final = _rows(
    used="""
        affinity containers ephemeralContainers hostNetwork hostUsers initContainers nodeName
        nodeSelector
        overhead preemptionPolicy priority resourceClaims resources schedulerName schedulingGates
        schedulingGroup
        terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes
    """,
    # priorityClassName and runtimeClassName were resolved by admission (priority, overhead,
    # nodeSelector, tolerations); os is looked at by the kubelet only; evictionResponders says who
    # answers an eviction, not where the pod goes.
    irrelevant="""
        activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks
        evictionResponders hostAliases hostIPC hostPID hostname hostnameOverride imagePullSecrets
        os priorityClassName readinessGates restartPolicy runtimeClassName securityContext
        serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
    """,
    # workloadRef (1.35): GangScheduling.
    unsupported="workloadRef",
)

_CONTAINER: Final = _rows(
    # env: a literal CUDA_VISIBLE_DEVICES is a promise; restartPolicy makes a sidecar.
    # image is scored (ImageLocality).
    used="env image name ports resources restartPolicy restartPolicyRules volumeMounts",
    irrelevant="""
        args command envFrom imagePullPolicy lifecycle livenessProbe readinessProbe
        resizePolicy securityContext startupProbe stdin stdinOnce terminationMessagePath
        terminationMessagePolicy tty volumeDevices workingDir
    """,
)

# The API server allows neither ports, resources nor restart rules here.
_EPHEMERAL_CONTAINER: Final = _rows(
    used="volumeMounts",
    irrelevant="""
        args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports
        readinessProbe resizePolicy resources restartPolicy restartPolicyRules securityContext
        startupProbe stdin stdinOnce targetContainerName terminationMessagePath
        terminationMessagePolicy tty volumeDevices workingDir
    """,
)

_VOLUME: Final = _rows(
    # No filter looks at these. csi is the inline kind, which NodeVolumeLimits does not count;
    # neither azureFile and vsphereVolume, though they are migrated (isCSIMigrationOn);
    # fc, flexVolume and the other old drivers are neither restricted nor migrated.
    irrelevant="""
        azureFile cephfs configMap csi downwardAPI emptyDir fc flexVolume flocker gitRepo
        glusterfs hostPath nfs photonPersistentDisk projected quobyte scaleIO secret
        storageos vsphereVolume
    """,
    # VolumeBinding, VolumeZone, NodeVolumeLimits, VolumeRestrictions: persistentVolumeClaim.
    # The same, by the claim that is made for the pod: ephemeral.
    # VolumeRestrictions (one writer per disk): awsElasticBlockStore, gcePersistentDisk, iscsi, rbd.
    # NodeVolumeLimits (counted through CSI migration, IsInlineMigratable): awsElasticBlockStore,
    # azureDisk, cinder, gcePersistentDisk, portworxVolume.
    # name: that of the claim of an ephemeral volume. An image volume is scored (ImageLocality).
    used="""
        awsElasticBlockStore azureDisk cinder ephemeral gcePersistentDisk image iscsi name
        persistentVolumeClaim portworxVolume rbd
    """,
)

_POD_AFFINITY: Final = _rows(
    used="""
        preferredDuringSchedulingIgnoredDuringExecution
        requiredDuringSchedulingIgnoredDuringExecution
    """,
)

# matchLabelKeys and mismatchLabelKeys are merged into labelSelector by the API server.
_POD_AFFINITY_TERM: Final = _rows(
    used="labelSelector namespaceSelector namespaces topologyKey",
    irrelevant="matchLabelKeys mismatchLabelKeys",
)

#: Object name as in the API's schema, property, use.
TABLE: Final = MappingProxyType(
    {
        "PodSpec": _POD_SPEC,
        "Affinity": _rows(used="nodeAffinity podAffinity podAntiAffinity"),
        "Container": _CONTAINER,
        # With hostNetwork a containerPort is a host port, by the API server's defaulting.
        "ContainerPort": _rows(used="containerPort hostIP hostPort protocol", irrelevant="name"),
        # action: RestartAllContainers needs a feature of the node (NodeDeclaredFeatures).
        "ContainerRestartRule": _rows(irrelevant="exitCodes", used="action"),
        "EnvVar": _rows(used="name value valueFrom"),
        "EnvVarSource": _rows(
            used="fieldRef",
            irrelevant="configMapKeyRef fileKeyRef resourceFieldRef secretKeyRef",
        ),
        "EphemeralContainer": _EPHEMERAL_CONTAINER,
        "NodeAffinity": _rows(
            used="""
                preferredDuringSchedulingIgnoredDuringExecution
                requiredDuringSchedulingIgnoredDuringExecution
            """
        ),
        "NodeSelector": _rows(used="nodeSelectorTerms"),
        "NodeSelectorRequirement": _rows(used="key operator values"),
        "NodeSelectorTerm": _rows(used="matchExpressions matchFields"),
        "ObjectFieldSelector": _rows(used="fieldPath", irrelevant="apiVersion"),
        "LabelSelector": _rows(used="matchExpressions matchLabels"),
        "LabelSelectorRequirement": _rows(used="key operator values"),
        "PodAffinity": _POD_AFFINITY,
        "PodAffinityTerm": _POD_AFFINITY_TERM,
        "PodAntiAffinity": _POD_AFFINITY,
        "PodSchedulingGate": _rows(used="name"),
        "PodSchedulingGroup": _rows(used="podGroupName"),
        "PreferredSchedulingTerm": _rows(used="preference weight"),
        # claims only tells the kubelet which container gets what of spec.resourceClaims.
        "ResourceRequirements": _rows(used="limits requests", irrelevant="claims"),
        # operator: Lt and Gt count with tolerations.compareNumbers only, as in kube-scheduler with
        # its feature gate, which is off in every release so far.
        "Toleration": _rows(used="effect key operator value", irrelevant="tolerationSeconds"),
        # whenUnsatisfiable: any value but DoNotSchedule and ScheduleAnyway.
        "TopologySpreadConstraint": _rows(
            used="""
                labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy
                nodeTaintsPolicy topologyKey
            """,
            unsupported="whenUnsatisfiable",
        ),
        "ImageVolumeSource": _rows(used="reference", irrelevant="pullPolicy"),
        "WeightedPodAffinityTerm": _rows(used="podAffinityTerm weight"),
        "Volume": _VOLUME,
        # bindMountOptions needs a feature of the node (NodeDeclaredFeatures).
        "VolumeMount": _rows(
            irrelevant="""
                mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr
            """,
            used="bindMountOptions",
        ),
        "AWSElasticBlockStoreVolumeSource": _rows(
            used="volumeID", irrelevant="fsType partition readOnly"
        ),
        "AzureDiskVolumeSource": _rows(
            used="diskURI kind", irrelevant="cachingMode diskName fsType readOnly"
        ),
        "CinderVolumeSource": _rows(used="volumeID", irrelevant="fsType readOnly secretRef"),
        # The claim that is made of the template is read, not the template.
        "EphemeralVolumeSource": _rows(irrelevant="volumeClaimTemplate"),
        "GCEPersistentDiskVolumeSource": _rows(
            used="pdName readOnly", irrelevant="fsType partition"
        ),
        # kube-scheduler compares the name of the target and no other field.
        "ISCSIVolumeSource": _rows(
            used="iqn readOnly",
            irrelevant="""
                chapAuthDiscovery chapAuthSession fsType initiatorName iscsiInterface lun portals
                secretRef targetPortal
            """,
        ),
        "PersistentVolumeClaimVolumeSource": _rows(used="claimName", irrelevant="readOnly"),
        "PodResourceClaim": _rows(used="name resourceClaimName resourceClaimTemplateName"),
        "PortworxVolumeSource": _rows(used="volumeID", irrelevant="fsType readOnly"),
        "RBDVolumeSource": _rows(
            used="image monitors pool readOnly", irrelevant="fsType keyring secretRef user"
        ),
    }
)

#: Rows for fields that newer API servers have no more.
GONE: Final = frozenset({("PodSpec", "workloadRef")})


def unclassified(schema: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Properties of a server's schema without a row, as ``Object.property``.

    ``schema`` maps objects to properties, and those to the object they refer to or to "", as
    ``tools/golden/api_fields.py`` makes it. Only what we use is looked into; a field of
    another kind is judged as a whole.
    """
    missing: list[str] = []
    waiting, seen = ["PodSpec"], {"PodSpec"}
    while waiting:
        name = waiting.pop()
        rows = TABLE.get(name, {})
        for prop, inner in schema[name].items():
            if prop not in rows:
                missing.append(f"{name}.{prop}")
            elif rows[prop] is Use.USED and inner and inner not in seen:
                seen.add(inner)
                waiting.append(inner)
    return sorted(missing)
