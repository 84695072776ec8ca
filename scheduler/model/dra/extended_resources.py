"""The claim that a pod gets for extended resources that DRA serves (KEP-5004).

Mirrors ``createRequestsAndMappings`` of kube-scheduler's dynamicresources
(``extendeddynamicresources.go``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from scheduler.model.dra.claim import DeviceRequest, ExactRequest
from scheduler.model.pods.pod_parts import Container, Role

#: The request that all init containers share, before it is known.
_LARGEST: Final = ""
_CONTAINER: Final = "container-"


class RequestMapping(msgspec.Struct, frozen=True, gc=False):
    """Which request of the claim serves a container's resource
    (``status.extendedResourceClaimStatus.requestMappings``).
    """

    container: str
    resource: str
    request: str


class ExtendedRequests(msgspec.Struct, frozen=True):
    """The requests of the claim, by name, and the containers that they serve."""

    requests: tuple[DeviceRequest, ...] = ()
    mappings: tuple[RequestMapping, ...] = ()


def extended_requests(
    containers: Sequence[Container], classes: Mapping[str, str]
) -> ExtendedRequests:
    """The claim for the resources in ``classes``, each with the name of its DeviceClass.

    ``containers`` are the init containers and then the others, as a Pod has them.
    """
    parts = [
        _of_resource(containers, resource, class_name)
        for resource, class_name in sorted(classes.items())
    ]
    requests = (one for part in parts for one in part.requests)
    return ExtendedRequests(
        tuple(sorted(requests, key=lambda one: one.name)),
        tuple(one for part in parts for one in part.mappings),
    )


def container_position(request: DeviceRequest) -> int:
    """The place in the Pod of the container that a request of such a claim is for."""
    return int(request.name.removeprefix(_CONTAINER).partition("-")[0])


def _of_resource(
    containers: Sequence[Container], resource: str, class_name: str
) -> ExtendedRequests:
    """Containers that run at the same time have requests of their own. An init container uses those
    of containers that start later, and one request more serves all init containers.
    """
    lasting: dict[int, DeviceRequest] = {}
    for at, container in enumerate(containers):
        if container.role is not Role.INIT:
            own = _own_request(at, container, resource, class_name, 0)
            if own is not None:
                lasting[at] = own
    uses = [(containers[at].name, own.name) for at, own in lasting.items()]
    largest: DeviceRequest | None = None
    for at, container in enumerate(containers):
        if container.role is Role.INIT and (need := _amount(container, resource)):
            reused, names = _reused(lasting, at, need)
            uses += ((container.name, name) for name in names)
            own = _own_request(at, container, resource, class_name, reused)
            if own is not None:
                uses.append((container.name, _LARGEST))
                largest = own if largest is None or _count(largest) < _count(own) else largest
    requests = ((largest,) if largest is not None else ()) + tuple(lasting.values())
    extra = largest.name if largest is not None else ""
    return ExtendedRequests(
        requests, tuple(RequestMapping(name, resource, used or extra) for name, used in uses)
    )


def _reused(lasting: Mapping[int, DeviceRequest], at: int, need: int) -> tuple[int, list[str]]:
    """The devices of later containers that an init container uses, and their requests."""
    reused, names = 0, []
    for later, request in lasting.items():
        if later >= at and reused < need:
            reused += _count(request)
            names.append(request.name)
    return reused, names


def _own_request(
    at: int, container: Container, resource: str, class_name: str, reused: int
) -> DeviceRequest | None:
    """The request for what a container needs beyond ``reused`` devices; None for nothing."""
    found = next((one for one in container.extended if one.resource == resource), None)
    if found is None or found.count <= reused:
        return None
    name = f"{_CONTAINER}{at}-request-{found.position}"
    exact = ExactRequest(name=name, class_name=class_name, count=found.count - reused)
    return DeviceRequest(name=name, exactly=exact)


def _amount(container: Container, resource: str) -> int:
    return next((one.count for one in container.extended if one.resource == resource), 0)


def _count(request: DeviceRequest) -> int:
    assert request.exactly is not None
    return request.exactly.count
