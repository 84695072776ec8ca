"""The fields of API objects that are read.

Decoding is typed (msgspec), 20 to 90 times cheaper than the official client's models;
``watch/decode/pods.py`` and ``nodes.py`` convert them to the types of the model.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from scheduler.model.limits import POD_CLAIMS_MAX
from scheduler.model.pods import pod_fields
from scheduler.model.selector import Taint

Amount = str | int | float
Amounts = dict[str, Amount]


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    """One owner; only the controlling one is used."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None
    api_version: str = ""


class Meta(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The fields of ObjectMeta that are read."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class FieldRef(msgspec.Struct, frozen=True, rename="camel"):
    """A downward API reference."""

    field_path: str = ""


class ValueFrom(msgspec.Struct, frozen=True, rename="camel"):
    """The source of an environment value."""

    field_ref: FieldRef | None = None


class EnvVar(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of a container's environment."""

    name: str = ""
    value: str | None = None
    value_from: ValueFrom | None = None


class Port(msgspec.Struct, frozen=True, rename="camel"):
    """A container port."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"
    container_port: int = 0


class Resources(msgspec.Struct, frozen=True):
    """Requests and limits, as written."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class ContainerWire(pod_fields.ContainerFields, frozen=True, rename="camel", kw_only=True):
    """The fields of a container that are read."""

    name: str = ""
    image: str = ""
    env: tuple[EnvVar, ...] | None = None
    ports: tuple[Port, ...] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class SchedulingGroup(msgspec.Struct, frozen=True, rename="camel"):
    """The PodGroup that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(pod_fields.SpecFields, frozen=True, rename="camel", kw_only=True):
    """The fields of PodSpec that are read."""

    containers: tuple[ContainerWire, ...] = ()
    init_containers: tuple[ContainerWire, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    overhead: Amounts | None = None
    preemption_policy: str = ""
    active_deadline_seconds: int | None = None
    priority: int | None = None
    priority_class_name: str = ""
    resources: Resources | None = None
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[Meta, ...] | None = None
    scheduling_group: SchedulingGroup | None = None


class ConditionWire(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of a pod's status."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """The end of a container."""

    exit_code: int = 0


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container, if it has ended."""

    terminated: Terminated | None = None


class ResourceHealth(msgspec.Struct, frozen=True):
    """One allocated device of a container."""

    resource_id: str = msgspec.field(default="", name="resourceID")
    health: str = ""


class ResourceStatus(msgspec.Struct, frozen=True):
    """The allocated devices of one resource, or of one claim, of a container."""

    name: str = ""
    resources: tuple[ResourceHealth, ...] | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The container's allocated resources (they differ from the spec during a resize) and its
    state.
    """

    name: str = ""
    allocated_resources: Amounts | None = None
    allocated_resources_status: tuple[ResourceStatus, ...] | None = None
    resources: Resources | None = None
    restart_count: int = 0
    last_state: ContainerState | None = None


class CreatedClaim(msgspec.Struct, frozen=True, rename="camel"):
    """The ResourceClaim that was created for one of the pod's claims; None: none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ExtendedClaim(msgspec.Struct, frozen=True, rename="camel"):
    """The ResourceClaim that a scheduler created for the pod's extended resources."""

    resource_claim_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of PodStatus that are read."""

    phase: str = "Pending"
    start_time: str | None = None
    conditions: tuple[ConditionWire, ...] | None = None
    nominated_node_name: str = ""
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    allocated_resources: Amounts | None = None
    resources: Resources | None = None
    resource_claim_statuses: (
        Annotated[tuple[CreatedClaim, ...], msgspec.Meta(max_length=POD_CLAIMS_MAX)] | None
    ) = None
    extended_resource_claim_status: ExtendedClaim | None = None


class PodWire(msgspec.Struct, frozen=True):
    """A Pod."""

    metadata: Meta
    spec: PodSpec
    status: PodStatus = PodStatus()


class NodeSpec(msgspec.Struct, frozen=True):
    """The fields of NodeSpec that are read."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeInfo(msgspec.Struct, frozen=True):
    """The kubelet's report about its machine; the boot id changes at each start."""

    boot_id: str = msgspec.field(default="", name="bootID")


class ContainerImage(msgspec.Struct, frozen=True, rename="camel"):
    """An image on a node, with all of its names."""

    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of NodeStatus that are read."""

    allocatable: Amounts | None = None
    capacity: Amounts | None = None
    declared_features: tuple[str, ...] | None = None
    images: tuple[ContainerImage, ...] | None = None
    node_info: NodeInfo | None = None


class NodeWire(msgspec.Struct, frozen=True):
    """A Node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceWire(msgspec.Struct, frozen=True):
    """A Namespace."""

    metadata: Meta


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """A list's version; ``token`` is the start of the next page, empty on the last one."""

    resource_version: str = ""
    token: str = msgspec.field(name="continue", default="")


class Listed(msgspec.Struct):
    """A list whose items are decoded by their source; Go encodes an empty one as null."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None


class WatchEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class Versioned(msgspec.Struct):
    """Any object with a version."""

    metadata: ListMeta
