"""The pod fields that restrict placement and that this scheduler does not implement.

A pod with one of them must be rejected with a reason that names the field; the field is never
ignored. ``tests/pod_field_use.py`` classifies every field of a pod; this module finds the
unsupported ones in a decoded pod.

The structs are embedded in the API types, or inherited. They store whether a field is set, not its
content: ``Present`` skips the content while it decodes, and holds no piece of the received buffer.

A typed decode drops unknown fields, so a field of a future API version would be ignored silently.
The schema test prevents that: every property in the OpenAPI document of the API server must be
classified, and it fails as soon as a new server has another one.

Must never: raise for a pod that the API server accepts, or cost more than a few microseconds for an
ordinary pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Protocol

import msgspec

from scheduler.model.limits import POD_CLAIMS_MAX
from scheduler.model.selector import LabelSelector, PreferredTerm, Term, Toleration
from scheduler.model.volumes.csi_volume import Disk

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
_RESTART_ALL: Final = "RestartAllContainers"


class Present(msgspec.Struct, frozen=True):
    """An object of which only the presence matters."""


class NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Terms; a node must match one of them."""

    node_selector_terms: tuple[Term, ...] = ()


class NodeAffinity(msgspec.Struct, frozen=True):
    """Node affinity; implemented completely."""

    required: NodeSelector | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[PreferredTerm, ...] = msgspec.field(default=(), name=_PREFERRED)


class PodTermFields(msgspec.Struct, frozen=True, rename="camel"):
    """A term of pod affinity or anti-affinity.

    The API server merges matchLabelKeys and mismatchLabelKeys into the selector when a pod is
    created, so no scheduler reads them.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class PreferredPodTermFields(msgspec.Struct, frozen=True, rename="camel"):
    """A preferred term of pod affinity or anti-affinity."""

    weight: int = 0
    pod_affinity_term: PodTermFields = PodTermFields()


class PodAffinityFields(msgspec.Struct, frozen=True):
    """The pods that a pod needs, or prefers, in its domain; or away from it."""

    required: tuple[PodTermFields, ...] = msgspec.field(default=(), name=_REQUIRED)
    preferred: tuple[PreferredPodTermFields, ...] = msgspec.field(default=(), name=_PREFERRED)


class AffinityFields(msgspec.Struct, frozen=True, rename="camel"):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinityFields | None = None
    pod_anti_affinity: PodAffinityFields | None = None


class SpreadFields(msgspec.Struct, frozen=True, rename="camel"):
    """One of ``spec.topologySpreadConstraints``."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class ImageFields(msgspec.Struct, frozen=True):
    """An image volume."""

    reference: str = ""


class ClaimSource(msgspec.Struct, frozen=True, rename="camel"):
    """``persistentVolumeClaim``: a claim of the pod's namespace."""

    claim_name: str = ""


class DiskSource(Disk, frozen=True, rename="camel"):
    """A disk that the pod names itself, with all fields by which plugins name one."""

    image: str = ""
    iqn: str = ""
    monitors: tuple[str, ...] = ()
    pool: str = ""
    read_only: bool | None = None


class VolumeFields(msgspec.Struct, frozen=True, rename="camel"):
    """One of ``spec.volumes``: the sources that kube-scheduler reads; ``image`` is only scored."""

    name: str = ""
    aws_elastic_block_store: DiskSource | None = None
    azure_disk: DiskSource | None = None
    cinder: DiskSource | None = None
    ephemeral: Present | None = None
    gce_persistent_disk: DiskSource | None = None
    image: ImageFields | None = None
    iscsi: DiskSource | None = None
    persistent_volume_claim: ClaimSource | None = None
    portworx_volume: DiskSource | None = None
    rbd: DiskSource | None = None


class MountFields(msgspec.Struct, frozen=True, rename="camel"):
    """One of a container's ``volumeMounts``."""

    bind_mount_options: tuple[str, ...] = ()


class RestartRule(msgspec.Struct, frozen=True, rename="camel"):
    """One of a container's ``restartPolicyRules``."""

    action: str = ""


class ContainerFields(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The container fields that matter here; an API type inherits them."""

    restart_policy_rules: tuple[RestartRule, ...] = ()
    volume_mounts: tuple[MountFields, ...] = ()


class ResourceClaimFields(msgspec.Struct, frozen=True, rename="camel"):
    """One of ``spec.resourceClaims``: a ResourceClaim, or a template for one."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SpecFields(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The fields of ``spec`` that matter here; an API type inherits or repeats them."""

    affinity: AffinityFields | None = None
    containers: tuple[ContainerFields, ...] = ()
    ephemeral_containers: tuple[ContainerFields, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    init_containers: tuple[ContainerFields, ...] = ()
    resource_claims: Annotated[
        tuple[ResourceClaimFields, ...], msgspec.Meta(max_length=POD_CLAIMS_MAX)
    ] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[SpreadFields, ...] = ()
    volumes: tuple[VolumeFields, ...] = ()
    workload_ref: Present | None = None


class Spec(Protocol):
    """A decoded pod spec with the fields of ``SpecFields``."""

    @property
    def affinity(self) -> AffinityFields | None: ...
    @property
    def containers(self) -> Sequence[ContainerFields]: ...
    @property
    def ephemeral_containers(self) -> Sequence[ContainerFields]: ...
    @property
    def host_network(self) -> bool: ...
    @property
    def host_users(self) -> bool | None: ...
    @property
    def init_containers(self) -> Sequence[ContainerFields]: ...
    @property
    def tolerations(self) -> Sequence[Toleration]: ...
    @property
    def topology_spread_constraints(self) -> Sequence[SpreadFields]: ...
    @property
    def volumes(self) -> Sequence[VolumeFields]: ...
    @property
    def workload_ref(self) -> object | None: ...


_ORDINARY_MOUNT: Final = MountFields()


def unsupported(spec: Spec) -> tuple[str, ...]:
    """Paths of the used fields that this scheduler does not implement: the pod must be rejected."""
    found: list[str] = []
    if spec.topology_spread_constraints:
        found.extend(_unknown_spread(spec.topology_spread_constraints))
    found.extend(_whole_pod(spec))
    return tuple(found)


def required_features(spec: Spec) -> tuple[str, ...]:
    """The features that a node must declare for the pod, sorted.

    kube-scheduler 1.37 infers these (component-helpers, ``nodedeclaredfeatures/features``); the
    kubelet refuses a pod whose features it does not have.
    """
    if _is_ordinary(spec):
        return ()
    started = (*spec.containers, *spec.init_containers)
    every = (*started, *spec.ephemeral_containers)
    found = []
    if any(rule.action == _RESTART_ALL for one in started for rule in one.restart_policy_rules):
        found.append("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        found.append("UserNamespacesHostNetworkSupport")
    if any(mount != _ORDINARY_MOUNT for one in every for mount in one.volume_mounts):
        found.append("VolumeBindMountOptions")
    return tuple(found)


def _is_ordinary(spec: Spec) -> bool:
    """Whether no container has rules or mounts, and the host's users do not matter."""
    if spec.host_network or spec.init_containers or spec.ephemeral_containers:
        return False
    return not any(one.restart_policy_rules or one.volume_mounts for one in spec.containers)


def _unknown_spread(constraints: Sequence[SpreadFields]) -> Iterator[str]:
    for index, constraint in enumerate(constraints):
        if constraint.when_unsatisfiable not in (_SCHEDULE_ANYWAY, DO_NOT_SCHEDULE):
            yield f"spec.topologySpreadConstraints[{index}].whenUnsatisfiable"


def _whole_pod(spec: Spec) -> Iterator[str]:
    if spec.workload_ref is not None:
        yield "spec.workloadRef"
