"""Converts a pod of the API to one of the model, with its effective requests.

The simulator and the admission queries use the same functions as the watches. An undecodable field
is a ValueError here (``watch/decode/objects`` contains it).
"""

from __future__ import annotations

import msgspec

from scheduler.model import resources, well_known
from scheduler.model.crd import former_version
from scheduler.model.gpu.allocated_devices import AllocatedDevice
from scheduler.model.limits import DEVICE_ID_LENGTH_MAX, POD_DEVICES_MAX
from scheduler.model.pods import pod_fields
from scheduler.model.pods.pod import Condition, Container, HostPort, Owner, Pod, Role
from scheduler.model.pods.pod_parts import ExtendedRequest, group_of, owner_of
from scheduler.model.quantity import QuantityError
from scheduler.watch.decode.api_types import (
    ConditionWire,
    ContainerStatus,
    ContainerWire,
    EnvVar,
    OwnerReference,
    PodSpec,
    PodStatus,
    PodWire,
    Resources,
)
from scheduler.watch.decode.dra.pod_claims import pod_claims
from scheduler.watch.decode.pod_affinity import pod_affinity, spread_constraints
from scheduler.watch.decode.pod_volumes import pod_volumes

POD = msgspec.json.Decoder(PodWire)

_ANNOTATION_PATH = "metadata.annotations['"


def to_pod(wire: PodWire, namespace: str = "") -> Pod:
    """A Pod of the model; ``namespace`` is used if the object has none (at admission)."""
    meta, spec = wire.metadata, wire.spec
    containers = _containers(spec)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    effective, score_extra = requests(spec, wire.status)
    return Pod(
        uid=meta.uid,
        name=meta.name or meta.generate_name,
        namespace=meta.namespace or namespace,
        created=meta.creation_timestamp or "",
        labels=meta.labels or {},
        annotations=kept(meta.annotations),
        owner=_controller(meta.owner_references or ()),
        scheduler_name=spec.scheduler_name,
        node_name=spec.node_name,
        nominated_node=wire.status.nominated_node_name,
        phase=wire.status.phase,
        is_deleting=meta.deletion_timestamp is not None,
        gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        priority=spec.priority or 0,
        priority_class=spec.priority_class_name,
        has_deadline=spec.active_deadline_seconds is not None,
        group=group_of(meta.labels or {}, meta.annotations or {}, _named_group(spec)),
        requests=effective,
        score_extra=score_extra,
        containers=containers,
        node_selector=spec.node_selector or {},
        required_terms=required.node_selector_terms if required else None,
        preferred_terms=affinity.preferred if affinity else (),
        affinity=pod_affinity(spec.affinity, meta.namespace or namespace),
        spread=spread_constraints(
            spec.topology_spread_constraints, meta.namespace or namespace, meta.labels or {}
        ),
        tolerations=spec.tolerations,
        host_ports=_host_ports(spec),
        images=() if spec.node_name else _images(spec),
        volumes=pod_volumes(spec.volumes, meta.name or meta.generate_name),
        unsupported=pod_fields.unsupported(spec),
        required_features=pod_fields.required_features(spec),
        condition=_scheduled_condition(wire.status.conditions or ()),
        crashes=_crashes(wire.status),
        is_admitted=wire.status.start_time is not None,
        resource_claims=pod_claims(spec, wire.status),
        allocated=_allocated(wire.status.container_statuses or ()),
        started=wire.status.start_time or "",
        is_preempted=_is_preempted(wire.status.conditions or ()),
        never_preempts=spec.preemption_policy == "Never",
    )


def kept(annotations: dict[str, str] | None) -> dict[str, str]:
    """The annotations that gpu-scheduler reads; others can be large and change often."""
    if not annotations:
        return {}
    found = {
        key: value
        for key, value in annotations.items()
        if key.startswith(well_known.PREFIX) or key in well_known.POD_ANNOTATIONS
    }
    for former, key in former_version.ANNOTATIONS.items():
        if former in found:
            found.setdefault(key, found.pop(former))
    return found


def _named_group(spec: PodSpec) -> str | None:
    """The group that the spec names; None if there is none."""
    if spec.scheduling_group is not None:
        return spec.scheduling_group.pod_group_name
    return None if spec.workload_ref is None else ""


def _allocated(statuses: tuple[ContainerStatus, ...]) -> tuple[AllocatedDevice, ...]:
    """The GPUs of the pod in its status; empty if there are implausibly many."""
    found: list[AllocatedDevice] = []
    for status in statuses:
        for resource in status.allocated_resources_status or ():
            listed = resource.resources or ()
            if len(found) + len(listed) > POD_DEVICES_MAX:
                return ()
            for one in listed:
                if max(len(resource.name), len(one.resource_id)) > DEVICE_ID_LENGTH_MAX:
                    return ()
                device = AllocatedDevice(resource.name, one.resource_id, one.health[:20])
                found += (device,) if device.is_gpu else ()
    return tuple(found)


def _controller(references: tuple[OwnerReference, ...]) -> Owner | None:
    for reference in references:
        if reference.controller:
            one = reference
            return owner_of(one.api_version, one.kind, one.name, one.uid)
    return None


def _crashes(status: PodStatus) -> int:
    """Restarts of the containers whose last run failed."""
    states = ((c.restart_count, c.last_state) for c in status.container_statuses or ())
    ends = ((count, state.terminated) for count, state in states if state is not None)
    return sum(count for count, end in ends if end is not None and end.exit_code != 0)


def _scheduled_condition(conditions: tuple[ConditionWire, ...]) -> Condition:
    for one in conditions:
        if one.type == "PodScheduled":
            return Condition(one.status, one.reason, one.message, one.last_transition_time or "")
    return Condition()


def _is_preempted(conditions: tuple[ConditionWire, ...]) -> bool:
    """Whether the pod says that a scheduler preempts it."""
    return any(
        one.type == well_known.DISRUPTION_TARGET
        and (one.status, one.reason) == ("True", well_known.PREEMPTION_BY_SCHEDULER)
        for one in conditions
    )


def _containers(spec: PodSpec) -> tuple[Container, ...]:
    init = (
        _container(c, Role.SIDECAR if is_sidecar(c) else Role.INIT) for c in spec.init_containers
    )
    return (*init, *(_container(c, Role.APP) for c in spec.containers))


def _container(wire: ContainerWire, role: Role) -> Container:
    amounts = requested(wire.resources)
    devices = {
        resource: value
        for resource, value in amounts.items()
        if well_known.is_gpu_device(resource) and value > 0
    }
    literal = key = None
    for entry in wire.env or ():  # the last entry of a name has precedence, as in the kubelet
        if entry.name == well_known.CUDA_ENV:
            literal = None if entry.value_from else entry.value or ""
            key = _annotation_read(entry)
    return Container(
        name=wire.name,
        role=role,
        devices=devices,
        extended=_extended(amounts),
        cuda_literal=literal,
        cuda_key=key,
    )


def _extended(amounts: resources.Amounts) -> tuple[ExtendedRequest, ...]:
    """The requests for extended resources; most containers have none."""
    if not any(map(well_known.is_extended_resource, amounts)):
        return ()
    return tuple(
        ExtendedRequest(name, amounts[name], position)
        for position, name in enumerate(sorted(amounts))
        if amounts[name] > 0 and well_known.is_extended_resource(name)
    )


def _annotation_read(entry: EnvVar) -> str | None:
    reference = entry.value_from.field_ref if entry.value_from else None
    path = reference.field_path if reference else ""
    if not path.startswith(_ANNOTATION_PATH + well_known.CUDA_VISIBLE_DEVICES):
        return None
    return path.removeprefix(_ANNOTATION_PATH).removesuffix("']")


def _images(spec: PodSpec) -> tuple[str, ...]:
    """The images of the pod's containers and volumes, as a node names them."""
    volumes = (one.image.reference for one in spec.volumes if one.image is not None)
    containers = (one.image for one in (*spec.init_containers, *spec.containers))
    return tuple(_tagged(name) for name in (*containers, *volumes))


def _tagged(image: str) -> str:
    """An image with its tag (kube-scheduler: normalizedImageName)."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    sidecars = (c for c in spec.init_containers if is_sidecar(c))
    found = []
    for container in (*spec.containers, *sidecars):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                found.append(HostPort(port.host_ip or "0.0.0.0", port.protocol, number))  # noqa: S104 - compared with, never listened on
    return tuple(found)


def is_sidecar(container: ContainerWire) -> bool:
    """Whether an init container runs beside the others."""
    return container.restart_policy == "Always"


def requested(wanted: Resources | None) -> resources.Amounts:
    """Requests, with limits for missing requests, as the API server defaults them."""
    if wanted is None:
        return {}
    return resources.amounts({**(wanted.limits or {}), **(wanted.requests or {})})


def requests(spec: PodSpec, status: PodStatus) -> tuple[resources.Amounts, tuple[int, int]]:
    """A pod's effective requests, or the allocated amounts if it is placed; and what scores add."""
    held = _Holdings(status) if spec.node_name else None
    regular = [_container_requests(container, held) for container in spec.containers]
    init = [(_container_requests(c, held), is_sidecar(c)) for c in spec.init_containers]
    own = held.of_pod(requested(spec.resources)) if held else requested(spec.resources)
    found = resources.effective(regular, init, own, resources.amounts(spec.overhead))
    for resource, amount in found.items():
        if amount < 0:  # the API server rejects it; it would free the capacity of other pods
            raise QuantityError(str(amount), f"{resource} cannot be requested below zero")
    return found, resources.score_extra(regular, init, own, is_placed=held is not None)


def _container_requests(container: ContainerWire, held: _Holdings | None) -> resources.Amounts:
    amounts = requested(container.resources)
    return held.of(container.name, amounts) if held else amounts


class _Holdings:
    """The allocated amounts of a placed pod's containers by its status (see ``resources.held``)."""

    def __init__(self, status: PodStatus) -> None:
        self._pod = status
        self._is_infeasible = any(
            c.type == "PodResizePending" and c.status == "True" and c.reason == "Infeasible"
            for c in status.conditions or ()
        )
        both = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        self._of = {one.name: one for one in both if one.allocated_resources or one.resources}

    def of(self, name: str, requested: resources.Amounts) -> resources.Amounts:
        """One container's allocated amounts."""
        status = self._of.get(name)
        return requested if status is None else self._held(status, requested)

    def of_pod(self, requested: resources.Amounts) -> resources.Amounts:
        """The pod-level amounts; empty if the pod has no pod-level requests."""
        return self._held(self._pod, requested) if requested else requested

    def _held(
        self, status: ContainerStatus | PodStatus, requested: resources.Amounts
    ) -> resources.Amounts:
        actual = status.resources.requests if status.resources else None
        return resources.held(
            requested,
            resources.amounts(status.allocated_resources),
            resources.amounts(actual),
            is_infeasible=self._is_infeasible,
        )
