"""Slices, claims and pods with claims, as users of DRA write and read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.controlplane.gpu_nodes import Nodes
from tests.controlplane.workloads import Json, pod
from tests.dra import with_claim
from tools.controlplane import Client, ControlPlane

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
ROLES = "fakegpu-dra-rbac.yaml"
CLASSES = "fakegpu-device-classes.yaml"

#: The README of seed 001, word for word.
SEED_NODE = """
apiVersion: v1
kind: Node
metadata:
  annotations:
    kwok.x-k8s.io/node: fake
  labels:
    type: kwok
    run.ai/simulated-gpu-node-pool: default
  name: kwok-gpu-node-1
spec:
  taints:
  - effect: NoSchedule
    key: kwok.x-k8s.io/node
    value: fake
status:
  allocatable:
    cpu: "32"
    memory: 128Gi
    pods: "110"
  capacity:
    cpu: "32"
    memory: 128Gi
    pods: "110"
"""
SEED_POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: gpu-claim
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
---
apiVersion: v1
kind: Pod
metadata:
  name: kwok-gpu-pod
spec:
  nodeSelector:
    type: kwok
  tolerations:
  - key: kwok.x-k8s.io/node
    operator: Equal
    value: fake
    effect: NoSchedule
  containers:
  - name: main
    image: ubuntu:22.04
    command: ["sleep", "infinity"]
    resources:
      claims:
      - name: gpu
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: gpu-claim
"""


def claiming(
    name: str,
    *,
    template: str = "",
    claim: str = "",
    scheduler: str = "default-scheduler",
    **spec: Any,
) -> Json:
    """A pod with one claim: of a template, or one that is there."""
    return with_claim(pod(name, scheduler=scheduler, **spec), template=template, claim=claim)


def make(client: Client, namespace: str, kind: str, name: str, spec: Json) -> None:
    """A ``resourceclaims`` or a ``resourceclaimtemplates``."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/{kind}"
    client.create(path, {"metadata": {"name": name}, "spec": spec})


def claims_of(pod: Json) -> list[str]:
    """The claims of a pod from the API server, in its order, and then that for its extended
    resources.
    """
    status = pod["status"]
    created = {
        one["name"]: one.get("resourceClaimName", "")
        for one in status.get("resourceClaimStatuses", ())
    }
    uses = pod["spec"].get("resourceClaims", ())
    extended = status.get("extendedResourceClaimStatus")
    return [
        *(one.get("resourceClaimName") or created.get(one["name"], "") for one in uses),
        *([extended["resourceClaimName"]] if extended else []),
    ]


def devices_of(claim: Json) -> list[str]:
    """The devices of a claim with their pools, ``node-1/gpu-0``; none while it is not allocated."""
    allocation = claim.get("status", {}).get("allocation", {"devices": {"results": []}})
    return [f"{one['pool']}/{one['device']}" for one in allocation["devices"]["results"]]


class Dra(Nodes):
    """Looks at slices and claims too."""

    def slices(self, node: str) -> list[Json]:
        """The slices of a node, by name."""
        items = self.client.get(SLICES)["items"]
        found = [one for one in items if one["spec"]["nodeName"] == node]
        return sorted(found, key=lambda one: str(one["metadata"]["name"]))

    def devices(self, node: str) -> list[Json]:
        return [one for found in self.slices(node) for one in found["spec"].get("devices", ())]

    def wait_slices(self, node: str, what: str, check: Callable[[list[Json]], bool]) -> list[Json]:
        self.client.wait_for(
            SLICES, lambda _: check(self.slices(node)), what=f"{what} in the slices of {node}"
        )
        return self.slices(node)

    def wait_devices(self, node: str, count: int) -> list[Json]:
        self.wait_slices(node, f"{count} devices", lambda _: len(self.devices(node)) == count)
        return self.devices(node)

    def make(self, namespace: str, kind: str, name: str, spec: Json) -> None:
        """A ``resourceclaims`` or a ``resourceclaimtemplates``."""
        make(self.client, namespace, kind, name, spec)

    def given(self, namespace: str, name: str) -> list[str]:
        """The devices that a pod's claims were allocated, once it is bound."""
        return [one.partition("/")[2] for one in self.given_on(namespace, name)]

    def given_on(self, namespace: str, name: str) -> list[str]:
        """The same with the nodes: ``node-1/gpu-0``."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        seen = self.client.wait_for(
            path, lambda one: "nodeName" in one["spec"], what=f"{name} to be bound"
        )
        return [device for one in claims_of(seen) for device in self.allocated(namespace, one)]

    def allocated(self, namespace: str, claim: str) -> list[str]:
        """The devices of a claim, with their pools."""
        path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{claim}"
        return devices_of(self.client.get(path))


@contextmanager
def kube_scheduler(cp: ControlPlane) -> Iterator[None]:
    """The real one, for as long as the block lasts."""
    try:
        cp.start_process("kube-scheduler")
        yield
    finally:
        if "kube-scheduler" in cp.processes:  # it may not have got that far
            cp.stop_process("kube-scheduler")
