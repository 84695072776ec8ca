"""A namespace with device classes, slices and claims of its own, beside the running product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.controlplane.dra_objects import claims_of, devices_of
from tests.controlplane.own_objects import OwnObjects
from tests.controlplane.workloads import Json, pod
from tests.dra import claim_json, claiming, class_json, request_json, slice_json
from tools.controlplane import ControlPlane
from tools.product import Product

DRA: Final = "/apis/resource.k8s.io/v1"
CLASSES: Final = f"{DRA}/deviceclasses"
SLICES: Final = f"{DRA}/resourceslices"


class Devices(OwnObjects):
    """Creates objects of DRA.

    Every test has a driver of its own, so no class selects the devices of another test.
    """

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(plane, namespace)
        self.driver = f"{namespace}.example.com"
        self.device_class("gpu", f"device.driver == '{self.driver}'")

    def device_class(self, name: str, *selectors: str, **spec: Any) -> str:
        """A class; returns its name."""
        self.make(CLASSES, class_json(self.named(name), *selectors, **spec))
        return self.named(name)

    def publish(self, node: str, *devices: str | Json, **more: Any) -> str:
        """A slice of a node's devices; returns its path."""
        more.setdefault("name", self.named(node))
        body = slice_json(node, *devices, driver=self.driver, **more)
        self.make(SLICES, body)
        return f"{SLICES}/{more['name']}"

    def request(self, name: str = "gpu", class_name: str = "gpu", **exactly: Any) -> Json:
        """A request of a class of this test."""
        return request_json(name, self.named(class_name), **exactly)

    def spec(self, *requests: Json, **more: Any) -> Json:
        """The spec of a claim; of one device, if nothing else is said."""
        spec: Json = claim_json("", *(requests or [self.request()]), **more)["spec"]
        return spec

    def claim(self, name: str, *requests: Json, **more: Any) -> None:
        """A claim that pods share by its name."""
        body = {"metadata": {"name": name}, "spec": self.spec(*requests, **more)}
        self.client.create(self.claim_path(), body)

    def template(self, name: str, *requests: Json, **more: Any) -> None:
        """A template: every pod that names it gets a claim of its own."""
        path = f"{DRA}/namespaces/{self.namespace}/resourceclaimtemplates"
        spec = {"spec": self.spec(*requests, **more)}
        self.client.create(path, {"metadata": {"name": name}, "spec": spec})

    def claim_path(self, name: str = "") -> str:
        """Where claims are."""
        path = f"{DRA}/namespaces/{self.namespace}/resourceclaims"
        return f"{path}/{name}" if name else path

    def user(self, name: str, *claims: str, template: str = "", **more: Any) -> Json:
        """A pod that names claims, or one template."""
        used = claiming(*claims, templates={template: template} if template else {})
        return self.create(pod(name, **used, **more))

    def status(self, claim: str) -> Json:
        """The status of a claim; empty while it has none."""
        found: Json = self.client.get(self.claim_path(claim)).get("status", {})
        return found

    def wait_claim(self, claim: str, what: str, check: Any) -> Json:
        """Wait until a claim is as wanted."""
        found: Json = self.client.wait_for(
            self.claim_path(claim),
            lambda seen: seen is not None and check(seen),
            what=f"claim {claim} {what}",
        )
        return found

    def claims_of(self, pod_name: str) -> list[str]:
        """The claims of a pod, created or named."""
        return claims_of(self.client.get(self.path("Pod", pod_name)))

    def given(self, pod_name: str) -> list[str]:
        """The devices of a pod's claims: ``node/device``."""
        claims = (self.client.get(self.claim_path(one)) for one in self.claims_of(pod_name))
        return [device for claim in claims for device in devices_of(claim)]

    def users(self, claim: str) -> set[str]:
        """The pods that have a claim reserved."""
        return {str(one["name"]) for one in self.status(claim).get("reservedFor", ())}


@pytest.fixture
def here(cp: ControlPlane, product: Product, namespace: str) -> Iterator[Devices]:
    """A fresh namespace; what it made beside itself is deleted afterwards."""
    assert product.is_running("scheduler")
    devices = Devices(cp, namespace)
    yield devices
    for path in devices.made:
        devices.client.delete_if_there(path)
