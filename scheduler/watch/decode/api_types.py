"""The API's objects as they arrive, as far as they are read.

Decoding is typed (msgspec), 20 to 90 times cheaper than the official client's models;
``watch/decode/pods.py`` and ``nodes.py`` turn these into the words of the model.
"""

from __future__ import annotations

import msgspec

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
    """ObjectMeta as far as it is read."""

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
    """Where an environment value comes from."""

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
    """A container as far as it is read."""

    name: str = ""
    env: tuple[EnvVar, ...] | None = None
    ports: tuple[Port, ...] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class SchedulingGroup(pod_fields.Present, frozen=True, rename="camel"):
    """The gang that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(pod_fields.SpecFields, frozen=True, rename="camel", kw_only=True):
    """PodSpec as far as it is read."""

    containers: tuple[ContainerWire, ...] = ()
    init_containers: tuple[ContainerWire, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    overhead: Amounts | None = None
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
    """How a container ended."""

    exit_code: int = 0


class ContainerState(msgspec.Struct, frozen=True):
    """A container's state, as far as it has ended."""

    terminated: Terminated | None = None


class ResourceHealth(msgspec.Struct, frozen=True):
    """One device that a container has."""

    resource_id: str = msgspec.field(default="", name="resourceID")
    health: str = ""


class ResourceStatus(msgspec.Struct, frozen=True):
    """The devices of one resource, or of one claim, that a container has."""

    name: str = ""
    resources: tuple[ResourceHealth, ...] | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the kubelet has given a container (it differs from the spec while it is resized),
    and how it fares."""

    name: str = ""
    allocated_resources: Amounts | None = None
    allocated_resources_status: tuple[ResourceStatus, ...] | None = None
    resources: Resources | None = None
    restart_count: int = 0
    last_state: ContainerState | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """PodStatus as far as it is read."""

    phase: str = "Pending"
    start_time: str | None = None
    conditions: tuple[ConditionWire, ...] | None = None
    nominated_node_name: str = ""
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    allocated_resources: Amounts | None = None
    resources: Resources | None = None
    extended_resource_claim_status: pod_fields.Present | None = None


class PodWire(msgspec.Struct, frozen=True):
    """A Pod."""

    metadata: Meta
    spec: PodSpec
    status: PodStatus = PodStatus()


class NodeSpec(msgspec.Struct, frozen=True):
    """NodeSpec as far as it is read."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeInfo(msgspec.Struct, frozen=True):
    """What a kubelet says of its machine; the id is another one after each start."""

    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """NodeStatus as far as it is read."""

    allocatable: Amounts | None = None
    capacity: Amounts | None = None
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
    """A list's version; ``token`` is where the next page begins, empty on the last one."""

    resource_version: str = ""
    token: str = msgspec.field(name="continue", default="")


class Listed(msgspec.Struct):
    """A list whose items are decoded by their source; null is how Go writes an empty one."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None


class WatchEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class Versioned(msgspec.Struct):
    """Any object, as far as it has a version."""

    metadata: ListMeta
