"""The requests of a pod, and the allocated amounts of a placed one (they differ during a
resize).
"""

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
    """Requests, with limits for missing requests, as the API server defaults them."""
    if wanted is None:
        return {}
    return resources.amounts({**(wanted.limits or {}), **(wanted.requests or {})})


def requests(spec: PodSpec, status: PodStatus) -> resources.Amounts:
    """A pod's effective requests, or the allocated amounts if it is placed."""
    held = _Holdings(status) if spec.node_name else None
    found = resources.effective(
        (_container_requests(container, held) for container in spec.containers),
        [(_container_requests(c, held), is_sidecar(c)) for c in spec.init_containers],
        held.of_pod(requested(spec.resources)) if held else requested(spec.resources),
        resources.amounts(spec.overhead),
    )
    for resource, amount in found.items():
        if amount < 0:  # the API server rejects it; it would free the capacity of other pods
            raise QuantityError(str(amount), f"{resource} cannot be requested below zero")
    return found


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
