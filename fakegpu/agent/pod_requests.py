"""The CPU and memory requests of the containers on a node, read from the API server."""

from __future__ import annotations

import msgspec
import structlog

from fakegpu.api_types import Amounts, Meta
from fakegpu.node.numa_zones import ContainerKey, Request
from scheduler.model import quantity
from scheduler.watch.client import ApiError, Client, Unreachable

PODS_S = 3.0

log = structlog.get_logger("fakegpu")


class _Resources(msgspec.Struct, frozen=True):
    requests: Amounts | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str
    resources: _Resources = _Resources()


class _Spec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Pod(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: _Spec


class _Pods(msgspec.Struct, frozen=True):
    items: tuple[_Pod, ...] | None = None


_PODS = msgspec.json.Decoder(_Pods)


def read(content: bytes) -> dict[ContainerKey, Request]:
    """The requests in a list of pods."""
    found = {}
    for pod in _PODS.decode(content).items or ():
        for container in pod.spec.containers:
            amounts = container.resources.requests or {}
            key = (pod.metadata.namespace, pod.metadata.name, container.name)
            found[key] = Request(
                quantity.value(amounts.get("cpu", 0)), quantity.value(amounts.get("memory", 0))
            )
    return found


async def fetch_requests(client: Client, node: str) -> dict[ContainerKey, Request]:
    """The requests of the pods on a node; empty if they cannot be read."""
    params = {"fieldSelector": f"spec.nodeName={node}"}
    try:
        content = await client.request("GET", "/api/v1/pods", params=params, timeout_s=PODS_S)
    except (ApiError, Unreachable) as error:
        log.warning("requests of pods not read", problem=str(error))
        return {}
    return read(content)
