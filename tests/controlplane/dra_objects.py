"""Slices, claims and pods with claims, as users of DRA write and read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.controlplane.gpu_nodes import Nodes
from tests.controlplane.workloads import Json, pod
from tools.controlplane import ControlPlane

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
ROLES = "fakegpu-dra-rbac.yaml"
CLASSES = "fakegpu-device-classes.yaml"


def claim_spec(device_class: str = "gpu.nvidia.com", **exactly: Any) -> Json:
    """The seed's ``gpu-claim``, if nothing else is said."""
    return {
        "devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": device_class, **exactly}}]
        }
    }


def claiming(name: str, *, template: str = "", claim: str = "", **spec: Any) -> Json:
    """A pod with one claim: of a template, or one that is there."""
    made = pod(name, scheduler="default-scheduler", **spec)
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    made["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return made


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
        path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/{kind}"
        self.client.create(path, {"metadata": {"name": name}, "spec": spec})

    def given(self, namespace: str, name: str) -> list[str]:
        """The devices that a pod's claims were allocated, once it is bound."""
        return [one.partition("/")[2] for one in self.given_on(namespace, name)]

    def given_on(self, namespace: str, name: str) -> list[str]:
        """The same with the nodes: ``node-1/gpu-0``."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        seen = self.client.wait_for(
            path, lambda one: "nodeName" in one["spec"], what=f"{name} to be bound"
        )
        status = seen["status"]
        names = [one["resourceClaimName"] for one in status.get("resourceClaimStatuses", ())]
        names += [
            one["resourceClaimName"]
            for one in seen["spec"].get("resourceClaims", ())
            if "resourceClaimName" in one
        ]
        extended = status.get("extendedResourceClaimStatus")
        names += [extended["resourceClaimName"]] if extended else []
        return [device for one in names for device in self.allocated(namespace, one)]

    def allocated(self, namespace: str, claim: str) -> list[str]:
        """The devices of a claim, with their pools."""
        path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{claim}"
        results = self.client.get(path)["status"]["allocation"]["devices"]["results"]
        return [f"{one['pool']}/{one['device']}" for one in results]


@contextmanager
def kube_scheduler(cp: ControlPlane) -> Iterator[None]:
    """The real one, for as long as the block lasts."""
    try:
        cp.start_process("kube-scheduler")
        yield
    finally:
        if "kube-scheduler" in cp.processes:  # it may not have got that far
            cp.stop_process("kube-scheduler")
