"""A node without KWOK: a test plays its kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.controlplane.workloads import Json
from tools.controlplane import ControlPlane

GPU = "nvidia.com/gpu"
HOSTNAME = "kubernetes.io/hostname"


class BrokenNode:
    """What a kubelet writes, by hand."""

    def __init__(self, cp: ControlPlane, name: str) -> None:
        self.name = name
        self._client = cp.client

    def give(self, item: Json, gpu: str, health: str = "Healthy") -> None:
        """A pod runs, and this is the GPU that it has."""
        meta, [container] = item["metadata"], item["spec"]["containers"]
        told = [{"name": GPU, "resources": [{"resourceID": gpu, "health": health}]}]
        container_status = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "allocatedResourcesStatus": told,
        }
        status = {
            "phase": "Running",
            "startTime": _now(),
            "containerStatuses": [container_status],
        }
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        self._client.patch(path, {"metadata": {"uid": meta["uid"]}, "status": status})

    def beat(self) -> None:
        """As a kubelet does all the time: without it a node is given up, and soon."""
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": _now()}
        strategic = "application/strategic-merge-patch+json"
        status = {"status": {"conditions": [ready]}}
        path = f"/api/v1/nodes/{self.name}/status"
        self._client.patch(path, status, content_type=strategic)

    def tell(self, item: Json, reason: str, message: str) -> None:
        """Its event about a pod that it does not admit, as client-go's recorder writes it."""
        meta = item["metadata"]
        about = {"kind": "Pod", "apiVersion": "v1", **{k: meta[k] for k in ("namespace", "name")}}
        name = f"{meta['name']}.{meta['uid']}"[:200]
        body = {
            "metadata": {"name": name, "namespace": meta["namespace"]},
            "involvedObject": {**about, "uid": meta["uid"]},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "count": 1,
            "source": {"component": "kubelet", "host": self.name},
            "firstTimestamp": _now(),
            "lastTimestamp": _now(),
            "reportingComponent": "kubelet",
            "reportingInstance": self.name,
        }
        self._client.create(f"/api/v1/namespaces/{meta['namespace']}/events", body)

    def refuse(self, item: Json, reason: str, message: str) -> None:
        """The pod's end, as the kubelet writes it after its event: its conditions are gone."""
        meta = item["metadata"]
        status = {
            "phase": "Failed",
            "reason": reason,
            "message": f"Pod was rejected: {message}",
            "startTime": _now(),
            "conditions": None,
        }
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        self._client.patch(path, {"metadata": {"uid": meta["uid"]}, "status": status})


@contextmanager
def broken_node(
    cp: ControlPlane,
    name: str,
    gpus: int = 2,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Iterator[BrokenNode]:
    """One for as long as a test needs it."""
    amounts: dict[str, Any] = {"cpu": "8", "memory": "64Gi", "pods": "110", GPU: str(gpus)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    meta = {
        "name": name,
        "labels": {HOSTNAME: name, **(labels or {})},
        "annotations": annotations or {},
    }
    path = f"/api/v1/nodes/{name}"
    cp.client.create("/api/v1/nodes", {"metadata": meta, "status": status})
    try:
        cp.client.wait_for(path, lambda seen: not seen["spec"].get("taints"), what="it to be ready")
        yield BrokenNode(cp, name)
    finally:
        cp.client.delete(path)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
