"""The pod fields that restrict placement and that this scheduler does not implement.

A pod with one of them must be rejected with a reason that names the field; the field is never
ignored. ``tests/pod_field_use.py`` classifies every field of a pod; this module finds the
unsupported and the soft ones in a decoded pod.

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
from typing import Final, Protocol

import msgspec

from scheduler.model.selector import PreferredTerm, Term, Toleration

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
_RESTART_ALL: Final = "RestartAllContainers"
_COMPARING: Final = ("Lt", "Gt")


class Present(msgspec.Struct, frozen=True):
    """An object of which only the presence matters."""


class NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Terms; a node must match one of them."""

    node_selector_terms: tuple[Term, ...] = ()


class NodeAffinity(msgspec.Struct, frozen=True):
    """Node affinity; implemented completely."""

    required: NodeSelector | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[PreferredTerm, ...] = msgspec.field(default=(), name=_PREFERRED)


class PodAffinityFields(msgspec.Struct, frozen=True):
    """Whether a pod requires or prefers pod affinity or anti-affinity."""

    required: tuple[Present, ...] = msgspec.field(default=(), name=_REQUIRED)
    preferred: tuple[Present, ...] = msgspec.field(default=(), name=_PREFERRED)


class AffinityFields(msgspec.Struct, frozen=True, rename="camel"):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinityFields | None = None
    pod_anti_affinity: PodAffinityFields | None = None


class SpreadConstraint(msgspec.Struct, frozen=True, rename="camel"):
    """One of ``spec.topologySpreadConstraints``."""

    when_unsatisfiable: str = ""


class VolumeFields(msgspec.Struct, frozen=True, rename="camel"):
    """One of ``spec.volumes``: the sources that a filter of kube-scheduler reads."""

    aws_elastic_block_store: Present | None = None
    azure_disk: Present | None = None
    azure_file: Present | None = None
    cinder: Present | None = None
    ephemeral: Present | None = None
    gce_persistent_disk: Present | None = None
    iscsi: Present | None = None
    persistent_volume_claim: Present | None = None
    portworx_volume: Present | None = None
    rbd: Present | None = None
    vsphere_volume: Present | None = None


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


class SpecFields(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The fields of ``spec`` that matter here; an API type inherits or repeats them."""

    affinity: AffinityFields | None = None
    containers: tuple[ContainerFields, ...] = ()
    ephemeral_containers: tuple[ContainerFields, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    init_containers: tuple[ContainerFields, ...] = ()
    resource_claims: tuple[Present, ...] = ()
    scheduling_group: Present | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
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
    def resource_claims(self) -> Sequence[object]: ...
    @property
    def scheduling_group(self) -> object | None: ...
    @property
    def tolerations(self) -> Sequence[Toleration]: ...
    @property
    def topology_spread_constraints(self) -> Sequence[SpreadConstraint]: ...
    @property
    def volumes(self) -> Sequence[VolumeFields]: ...
    @property
    def workload_ref(self) -> object | None: ...


_ORDINARY_VOLUME: Final = VolumeFields()
_ORDINARY_MOUNT: Final = MountFields()
_SOURCES: Final = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(VolumeFields)
)


def unsupported(spec: Spec) -> tuple[str, ...]:
    """Paths of the used fields that this scheduler does not implement: the pod must be rejected."""
    found: list[str] = []
    if spec.affinity is not None:
        found.extend(_pod_affinity(spec.affinity, required=True))
    if spec.topology_spread_constraints:
        found.extend(_hard_spread(spec.topology_spread_constraints))
    for index, volume in enumerate(spec.volumes):
        if volume != _ORDINARY_VOLUME:
            found.extend(_sources(volume, f"spec.volumes[{index}]"))
    for index, toleration in enumerate(spec.tolerations):
        if toleration.operator in _COMPARING:
            found.append(f"spec.tolerations[{index}].operator={toleration.operator}")
    found.extend(_containers(spec.containers, "spec.containers"))
    found.extend(_containers(spec.init_containers, "spec.initContainers"))
    found.extend(_containers(spec.ephemeral_containers, "spec.ephemeralContainers"))
    found.extend(_whole_pod(spec))
    return tuple(found)


def soft(spec: Spec) -> tuple[str, ...]:
    """Paths of the used preferences that are not implemented: the pod is placed with an event."""
    found: list[str] = []
    if spec.affinity is not None:
        found.extend(_pod_affinity(spec.affinity, required=False))
    for index, constraint in enumerate(spec.topology_spread_constraints):
        if constraint.when_unsatisfiable == _SCHEDULE_ANYWAY:
            found.append(f"spec.topologySpreadConstraints[{index}]")
    return tuple(found)


def _pod_affinity(affinity: AffinityFields, *, required: bool) -> Iterator[str]:
    for name, terms in (
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    ):
        if terms is None:
            continue
        if required and terms.required:
            yield f"spec.affinity.{name}.{_REQUIRED}"
        if not required and terms.preferred:
            yield f"spec.affinity.{name}.{_PREFERRED}"


def _hard_spread(constraints: Sequence[SpreadConstraint]) -> Iterator[str]:
    for index, constraint in enumerate(constraints):
        if constraint.when_unsatisfiable != _SCHEDULE_ANYWAY:
            # An unknown value counts as the strictest known one.
            known = "=DoNotSchedule" if constraint.when_unsatisfiable == "DoNotSchedule" else ""
            yield f"spec.topologySpreadConstraints[{index}].whenUnsatisfiable{known}"


def _sources(volume: VolumeFields, path: str) -> Iterator[str]:
    for attribute, name in _SOURCES:
        if getattr(volume, attribute) is not None:
            yield f"{path}.{name}"


def _containers(containers: Sequence[ContainerFields], path: str) -> Iterator[str]:
    """Fields that only some nodes support (kube-scheduler: NodeDeclaredFeatures)."""
    for index, container in enumerate(containers):
        for place, rule in enumerate(container.restart_policy_rules):
            if rule.action == _RESTART_ALL:
                yield f"{path}[{index}].restartPolicyRules[{place}].action={_RESTART_ALL}"
        for place, mount in enumerate(container.volume_mounts):
            if mount != _ORDINARY_MOUNT:
                yield f"{path}[{index}].volumeMounts[{place}].bindMountOptions"


def _whole_pod(spec: Spec) -> Iterator[str]:
    if spec.host_network and spec.host_users is False:
        # Only this combination needs a feature of the node (UserNamespacesHostNetworkSupport).
        yield "spec.hostUsers=false"
    if spec.resource_claims:
        yield "spec.resourceClaims"
    if spec.scheduling_group is not None:
        yield "spec.schedulingGroup"
    if spec.workload_ref is not None:
        yield "spec.workloadRef"
