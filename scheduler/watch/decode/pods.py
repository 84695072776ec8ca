"""Converts a pod of the API to one of the model, with its effective requests.

The simulator and the admission queries use the same functions as the watches. An undecodable field
is a ValueError here (``watch/decode/objects`` contains it).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

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
#: The amounts of containers with at most so many entries are kept: replicas have equal ones.
_KEPT_ENTRIES_MAX: Final = 16

Entries = tuple[tuple[str, str | int | float], ...]


class ContainerRequests(msgspec.Struct, frozen=True):
    """What one container requests; containers with equal requests share it."""

    amounts: resources.Amounts
    devices: dict[str, int]
    extended: tuple[ExtendedRequest, ...]


def to_pod(wire: PodWire, namespace: str = "") -> Pod:
    """A Pod of the model; ``namespace`` is used if the object has none (at admission)."""
    meta, spec = wire.metadata, wire.spec
    wanted = [_requested(c.resources) for c in (*spec.init_containers, *spec.containers)]
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    effective, score_extra = _requests(spec, wire.status, [one.amounts for one in wanted])
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
        active_deadline_s=spec.active_deadline_seconds,
        group=group_of(meta.labels or {}, meta.annotations or {}, _named_group(spec)),
        scheduling_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
        requests=effective,
        score_extra=score_extra,
        containers=_containers(spec, wanted),
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
    if not status.container_statuses:
        return 0
    states = ((c.restart_count, c.last_state) for c in status.container_statuses)
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


def _containers(spec: PodSpec, wanted: Sequence[ContainerRequests]) -> tuple[Container, ...]:
    """The init containers, then the others; ``wanted`` is in the same order."""
    roles = [Role.SIDECAR if is_sidecar(one) else Role.INIT for one in spec.init_containers]
    roles += [Role.APP] * len(spec.containers)
    every = (*spec.init_containers, *spec.containers)
    return tuple(map(_container, every, wanted, roles))


def _container(wire: ContainerWire, wanted: ContainerRequests, role: Role) -> Container:
    literal = key = None
    for entry in wire.env or ():  # the last entry of a name has precedence, as in the kubelet
        if entry.name == well_known.CUDA_ENV:
            literal = None if entry.value_from else entry.value or ""
            key = _annotation_read(entry)
    return Container(
        name=wire.name,
        role=role,
        devices=wanted.devices,
        extended=wanted.extended,
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


_NOTHING_REQUESTED: Final = ContainerRequests({}, {}, ())


def _requested(wanted: Resources | None) -> ContainerRequests:
    """Requests, with limits for missing requests, as the API server defaults them."""
    if wanted is None:
        return _NOTHING_REQUESTED
    entries = tuple({**(wanted.limits or {}), **(wanted.requests or {})}.items())
    return _kept_requests(entries) if len(entries) <= _KEPT_ENTRIES_MAX else _read(entries)


def _read(entries: Entries) -> ContainerRequests:
    amounts = resources.amounts(dict(entries))
    devices = {
        resource: value
        for resource, value in amounts.items()
        if well_known.is_gpu_device(resource) and value > 0
    }
    return ContainerRequests(amounts, devices, _extended(amounts))


_kept_requests = lru_cache(maxsize=4096, typed=True)(_read)


def _requests(
    spec: PodSpec, status: PodStatus, wanted: Sequence[resources.Amounts]
) -> tuple[resources.Amounts, tuple[int, int]]:
    """A pod's effective requests, or the allocated amounts if it is placed; and what scores add.

    ``wanted`` are the requests of the init containers, then of the others.
    """
    held = _Holdings(status) if spec.node_name and _has_amounts(status) else None
    every = (*spec.init_containers, *spec.containers)
    if held is not None:
        wanted = [held.of(c.name, one) for c, one in zip(every, wanted, strict=True)]
    sidecars = [is_sidecar(one) for one in spec.init_containers]
    init = list(zip(wanted, sidecars, strict=False))
    regular = wanted[len(sidecars) :]
    own = _requested(spec.resources).amounts
    if held is not None:
        own = held.of_pod(own)
    if len(wanted) == 1 and not init and not own and not spec.overhead:
        found = wanted[0]  # most pods; replicas share it
    else:
        found = resources.effective(regular, init, own, resources.amounts(spec.overhead))
    for resource, amount in found.items():
        if amount < 0:  # the API server rejects it; it would free the capacity of other pods
            raise QuantityError(str(amount), f"{resource} cannot be requested below zero")
    return found, resources.score_extra(regular, init, own, is_placed=bool(spec.node_name))


def _has_amounts(status: PodStatus) -> bool:
    """Whether the status has amounts of containers or of the pod: a kubelet has written it."""
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.allocated_resources
        or status.resources
    )


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
