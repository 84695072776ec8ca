"""The nodes with GPUs, and what their pods hold. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler.model import well_known
from scheduler.model.integer_text import whole
from scheduler.model.resources import amounts
from scheduler.model.selector import Taint

Raw = dict[str, Any]

#: The annotation of nodes without a kubelet.
SIMULATED: Final = ("kwok.x-k8s.io/node", "fake")
GPU_TYPE: Final = "gpu-type"
REPLICAS_MAX: Final = 1000
ENDED: Final = ("Succeeded", "Failed")


class Host(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One node with GPUs; ``free`` and ``offered`` are GPU resources, ``foreign`` the number of
    pods of other schedulers that hold GPUs there, ``holders`` of all pods that do.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Mapping[str, int]
    offered: Mapping[str, int]
    free: Mapping[str, int]
    is_simulated: bool
    is_ready: bool
    holders: int = 0
    foreign: int = 0

    @property
    def replicas(self) -> int:
        """The shares of one GPU by time-slicing or MPS; 1 without sharing."""
        return whole(self.labels.get(well_known.GPU_REPLICAS, ""), REPLICAS_MAX) or 1

    @property
    def kind(self) -> str:
        """The type of its GPUs: the label ``gpu-type``, else the product."""
        return self.labels.get(GPU_TYPE) or self.labels.get(well_known.GPU_PRODUCT, "")


def hosts(nodes: Iterable[Raw], pods: Iterable[Raw], scheduler: str) -> tuple[Host, ...]:
    """The nodes that have GPUs, by name; ``pods`` are those of all namespaces."""
    held: dict[str, list[tuple[str, dict[str, int]]]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        devices = _devices_of(pod)
        if (
            node
            and (devices or _is_mapped(pod))
            and pod.get("status", {}).get("phase") not in ENDED
        ):
            held.setdefault(node, []).append((pod["spec"].get("schedulerName", ""), devices))
    found = (_host(node, held.get(node["metadata"]["name"], []), scheduler) for node in nodes)
    return tuple(sorted((one for one in found if one.capacity), key=lambda one: one.name))


def _host(node: Raw, held: list[tuple[str, dict[str, int]]], scheduler: str) -> Host:
    meta, status = node["metadata"], node.get("status", {})
    offered = _gpus(status.get("allocatable"))
    used: dict[str, int] = {}
    for _, devices in held:
        for resource, count in devices.items():
            used[resource] = used.get(resource, 0) + count
    ready = [one for one in status.get("conditions") or () if one.get("type") == "Ready"]
    key, value = SIMULATED
    return Host(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=msgspec.convert(node["spec"].get("taints") or (), tuple[Taint, ...]),
        capacity=_gpus(status.get("capacity")),
        offered=offered,
        free={resource: count - used.get(resource, 0) for resource, count in offered.items()},
        is_simulated=(meta.get("annotations") or {}).get(key) == value,
        is_ready=bool(ready)
        and ready[0].get("status") == "True"
        and not node["spec"].get("unschedulable"),
        holders=len(held),
        foreign=sum(name != scheduler for name, _ in held),
    )


def _is_mapped(pod: Raw) -> bool:
    """Whether a map gave it GPUs, which it need not request."""
    given = pod["metadata"].get("annotations") or {}
    return well_known.MAP in given or well_known.DEVICES in given


def _devices_of(pod: Raw) -> dict[str, int]:
    """The sums over all containers: no less than the pod holds."""
    found: dict[str, int] = {}
    spec = pod["spec"]
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        for resource, count in _gpus((container.get("resources") or {}).get("limits")).items():
            found[resource] = found.get(resource, 0) + count
    return found


def _gpus(given: Mapping[str, Any] | None) -> dict[str, int]:
    devices = {key: one for key, one in (given or {}).items() if well_known.is_gpu_device(key)}
    return {resource: count for resource, count in amounts(devices).items() if count > 0}


def workload_taints(host: Host) -> tuple[Taint, ...]:
    """The taints that keep pods without a toleration away on purpose."""
    return tuple(one for one in host.taints if one.is_hard and not one.is_of_condition)
