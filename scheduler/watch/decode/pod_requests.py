"""What a pod requests, and what it holds once it is placed (a resize may not be done yet)."""

from __future__ import annotations

from scheduler.model import resources
from scheduler.model.quantity import QuantityError
from scheduler.watch.decode.api_types import (
    ContainerStatus,
    ContainerWire,
    PodSpec,
    PodStatus,
    Resources,
)


def is_sidecar(container: ContainerWire) -> bool:
    """Whether an init container runs beside the others."""
    return container.restart_policy == "Always"


def requested(wanted: Resources | None) -> resources.Amounts:
    """Requests, with limits where a request is missing, as the API server defaults them."""
    if wanted is None:
        return {}
    return resources.amounts({**(wanted.limits or {}), **(wanted.requests or {})})


def requests(spec: PodSpec, status: PodStatus) -> resources.Amounts:
    """A pod's effective requests, or what it holds where it is placed."""
    held = _Holdings(status) if spec.node_name else None
    found = resources.effective(
        (_container_requests(container, held) for container in spec.containers),
        [(_container_requests(c, held), is_sidecar(c)) for c in spec.init_containers],
        held.of_pod(requested(spec.resources)) if held else requested(spec.resources),
        resources.amounts(spec.overhead),
    )
    for resource, amount in found.items():
        if amount < 0:  # the API server refuses it; it would free what others hold
            raise QuantityError(str(amount), f"{resource} cannot be requested below zero")
    return found


def _container_requests(container: ContainerWire, held: _Holdings | None) -> resources.Amounts:
    amounts = requested(container.resources)
    return held.of(container.name, amounts) if held else amounts


class _Holdings:
    """What a placed pod's containers hold by their status (see ``resources.held``)."""

    def __init__(self, status: PodStatus) -> None:
        self._pod = status
        self._is_infeasible = any(
            c.type == "PodResizePending" and c.status == "True" and c.reason == "Infeasible"
            for c in status.conditions or ()
        )
        both = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        self._of = {one.name: one for one in both if one.allocated_resources or one.resources}

    def of(self, name: str, requested: resources.Amounts) -> resources.Amounts:
        """One container's holding."""
        status = self._of.get(name)
        return requested if status is None else self._held(status, requested)

    def of_pod(self, requested: resources.Amounts) -> resources.Amounts:
        """The pod-level holding; empty where the pod has no requests of its own."""
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
