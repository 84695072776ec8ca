"""A pod with other resource requests: another MIG tier, 1:1.

Only the model of a pod is changed; the webhook rewrites the real one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.model import resources, well_known
from scheduler.model.pods.pod import Container, Pod, Role
from scheduler.model.pods.pod_parts import ExtendedRequest


def with_resources(pod: Pod, changes: Mapping[str, str]) -> Pod:
    """The pod with the requests of all containers replaced 1:1, at once."""
    return with_containers(pod, tuple(_swapped(one, changes) for one in pod.containers))


def with_added(pod: Pod, added: Mapping[str, str]) -> Pod:
    """The pod with one more device request in each of these containers."""
    containers = tuple(
        msgspec.structs.replace(
            one, devices={**one.devices, added[one.name]: one.devices.get(added[one.name], 0) + 1}
        )
        if one.name in added
        else one
        for one in pod.containers
    )
    return with_containers(pod, containers)


def with_containers(pod: Pod, containers: tuple[Container, ...]) -> Pod:
    """The pod with these containers' devices instead of its own."""
    requests = {
        resource: value
        for resource, value in pod.requests.items()
        if not well_known.is_gpu_device(resource)
    }
    resources.add(requests, device_requests(containers))
    containers = tuple(map(_with_extended, containers))
    return msgspec.structs.replace(pod, containers=containers, requests=requests)


def _with_extended(container: Container) -> Container:
    """The container with its devices among its extended resources too."""
    known = {one.resource: one for one in container.extended}
    has = {r: one.count for r, one in known.items() if well_known.is_gpu_device(r)}
    if has == container.devices:
        return container
    others = tuple(one for r, one in known.items() if r not in has)
    after = max((one.position for one in container.extended), default=-1) + 1
    devices = tuple(
        ExtendedRequest(resource=resource, count=count, position=at)
        for at, (resource, count) in enumerate(container.devices.items(), after)
        if count > 0
    )
    return msgspec.structs.replace(container, extended=(*others, *devices))


def device_requests(containers: tuple[Container, ...]) -> dict[str, int]:
    """Effective requests for GPUs and MIG instances only."""
    return resources.effective(
        (c.devices for c in containers if c.role is Role.APP),
        [(c.devices, c.role is Role.SIDECAR) for c in containers if c.role is not Role.APP],
    )


def _swapped(container: Container, changes: Mapping[str, str]) -> Container:
    if changes.keys().isdisjoint(container.devices):
        return container
    devices: dict[str, int] = {}
    for resource, count in container.devices.items():
        target = changes.get(resource, resource)
        devices[target] = devices.get(target, 0) + count
    return msgspec.structs.replace(container, devices=devices)
