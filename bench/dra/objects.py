"""Nodes, ResourceSlices, claims and pods of the benchmark, as objects of the API. Pure.

The slices are those of NVIDIA's DRA driver, as the fake GPU operator publishes them, and the
DeviceClasses those of ``cluster/fakegpu-device-classes.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bench.load import Request
from fakegpu.dra.kwok import gpu_pool
from fakegpu.dra.pool import changes
from fakegpu.node.resource_slices import contents
from fakegpu.topology.node_topology import Gpu, NodeTopology

Json = dict[str, Any]

GROUP: Final = "/apis/resource.k8s.io/v1"
SLICES: Final = f"{GROUP}/resourceslices"
#: GPUs of a node whose GPUs are allocated whole.
GPUS: Final = 8
PRODUCT: Final = "NVIDIA-A100-SXM4-80GB"
MEMORY_MIB: Final = 81_920
GPU_CLASS, MIG_CLASS = "gpu.nvidia.com", "mig.nvidia.com"
GPU_RESOURCE: Final = "nvidia.com/gpu"


def claims_path(namespace: str) -> str:
    """The ResourceClaims of a namespace."""
    return f"{GROUP}/namespaces/{namespace}/resourceclaims"


def pods_path(namespace: str) -> str:
    """The pods of a namespace."""
    return f"/api/v1/namespaces/{namespace}/pods"


def node(number: int) -> Request:
    """A node without a device plugin."""
    name = node_name(number)
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    return Request(
        "POST",
        "/api/v1/nodes",
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
    )


def node_name(number: int) -> str:
    """A node's name."""
    return f"node-{number:05}"


def whole_gpus(number: int) -> NodeTopology:
    """The GPUs of a node whose GPUs are allocated whole."""
    return _topology(tuple(Gpu(id=f"GPU-{number:05}-{index}") for index in range(GPUS)))


def gpu_in_parts(number: int) -> NodeTopology:
    """The GPU of a node with one, in MIG mode, of which each partition is a device."""
    return _topology((Gpu(id=f"GPU-{number:05}-0", mig_devices=(), partitionable=True),))


def _topology(gpus: tuple[Gpu, ...]) -> NodeTopology:
    return NodeTopology(
        gpu_memory=MEMORY_MIB,
        gpu_product=PRODUCT,
        driver_version="570.86.15",
        cuda_version="12.8",
        gpus=gpus,
    )


def slices(number: int, topology: NodeTopology) -> Iterator[Request]:
    """The ResourceSlices of a node."""
    name = node_name(number)
    for _, body in changes(gpu_pool(name), contents(name, topology), ()).write:
        # A node here has no uid before it is created; no garbage collector runs.
        del body["metadata"]["ownerReferences"]
        yield Request("POST", SLICES, body)


def claim(namespace: str, name: str, profile: str = "") -> Request:
    """A claim for a whole GPU, or for a MIG partition of a profile."""
    exactly: Json = {"deviceClassName": MIG_CLASS if profile else GPU_CLASS}
    if profile:
        expression = f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return Request(
        "POST",
        claims_path(namespace),
        {
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        },
    )


def claiming_pod(namespace: str, name: str, scheduler: str) -> Request:
    """A pod that uses the claim of its name."""
    fields = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
    return _pod(namespace, name, scheduler, {"claims": [{"name": "gpu"}]}, fields)


def extended_pod(namespace: str, name: str, scheduler: str) -> Request:
    """A pod that requests one GPU as an extended resource."""
    return _pod(namespace, name, scheduler, {"limits": {GPU_RESOURCE: "1"}}, {})


def _pod(namespace: str, name: str, scheduler: str, resources: Json, fields: Json) -> Request:
    requests = {"cpu": "1", "memory": "1Gi", **resources.get("limits", {})}
    container = {"name": "c", "image": "i", "resources": {**resources, "requests": requests}}
    return Request(
        "POST",
        pods_path(namespace),
        {
            "metadata": {"name": name},
            "spec": {
                "schedulerName": scheduler,
                "automountServiceAccountToken": False,
                "containers": [container],
                **fields,
            },
        },
    )
