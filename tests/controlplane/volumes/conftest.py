"""A namespace with storage classes, volumes and claims of its own, beside the running product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.controlplane.own_objects import OwnObjects
from tests.controlplane.workloads import Json, as_created, pod
from tests.storage import claim_json, class_json, uses, volume_json
from tools.controlplane import ControlPlane
from tools.product import Product

CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES: Final = "/api/v1/persistentvolumes"


class Storage(OwnObjects):
    """Creates storage objects."""

    def storage_class(self, name: str = "local", **more: Any) -> str:
        """A class; returns its name."""
        self.make(CLASSES, class_json(self.named(name), **more))
        return self.named(name)

    def volume(self, name: str = "pv", class_name: str = "local", **more: Any) -> str:
        """A volume of a class of this test; returns its name."""
        self.make(VOLUMES, volume_json(self.named(name), class_name=self.named(class_name), **more))
        return self.named(name)

    def claim(self, name: str = "data", class_name: str = "local", **more: Any) -> None:
        """A claim of a class of this test."""
        named = self.named(class_name)
        body = claim_json(name, namespace=self.namespace, class_name=named, **more)
        self.client.create(self.claim_path(), as_created(body))

    def claim_path(self, name: str = "") -> str:
        """Where claims are."""
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        return f"{path}/{name}" if name else path

    def user(self, name: str, *claims: str, **more: Any) -> Json:
        """A pod that mounts claims."""
        return self.create(pod(name, **uses(*claims or ("data",)), **more))

    def volume_of(self, claim: str = "data") -> str:
        """The volume that a claim is bound to, without the namespace in its name."""
        found = self.client.get(self.claim_path(claim))["spec"].get("volumeName", "")
        return str(found).removeprefix(f"{self.namespace}-")

    def wait_claim(self, claim: str, what: str, check: Any) -> Json:
        """Wait until a claim is as wanted."""
        found: Json = self.client.wait_for(
            self.claim_path(claim),
            lambda seen: seen is not None and check(seen),
            what=f"claim {claim} {what}",
        )
        return found

    def wait_bound_claim(self, claim: str = "data") -> None:
        """Wait until the PV controller has bound a claim."""
        self.wait_claim(claim, "to be bound", lambda one: one["status"].get("phase") == "Bound")


@pytest.fixture
def here(cp: ControlPlane, product: Product, namespace: str) -> Iterator[Storage]:
    """A fresh namespace; what it made beside itself is deleted afterwards."""
    assert product.is_running("scheduler")
    storage = Storage(cp, namespace)
    yield storage
    for path in storage.made:
        if path.startswith(VOLUMES):
            storage.client.patch(path, {"metadata": {"finalizers": None}})
        storage.client.delete_if_there(path)
