"""What the workloads of random cases use beside nodes: priorities, devices of DRA, volumes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.controlplane.workloads import Json
from tests.dra import claim_spec, slice_json, with_claim
from tests.dra import class_json as device_class_json
from tests.provisioner import Provisioner
from tests.storage import claim_json, class_json, uses, volume_json
from tools.controlplane import ControlPlane, FakeNode

#: A PriorityClass; the others have 0.
HIGH: Final = "whatif-high"
DRIVER: Final = "gpu.whatif.example"
DEVICES: Final = "whatif-gpu"
#: Storage classes: of volumes that exist, and of volumes that wait for the first pod.
STATIC, LATE = "whatif-static", "whatif-late"
SHARED: Final = ("ReadWriteMany",)
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
VOLUMES: Final = "/api/v1/persistentvolumes"


@dataclass(frozen=True)
class WorkloadVolume:
    """A claim of one workload, and its volume if that exists already."""

    claim: Json
    volume: Json | None = None


@contextmanager
def shared_objects(cp: ControlPlane) -> Iterator[None]:
    """The classes of all cases, and the provisioner of the volumes that wait."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    selector = f"device.driver == '{DRIVER}'"
    with Provisioner(cp.client, "disk.whatif.example") as provisioner:
        made = (
            ("scheduling.k8s.io/v1/priorityclasses", {**kind, "value": 1000}, HIGH),
            ("resource.k8s.io/v1/deviceclasses", device_class_json(DEVICES, selector), DEVICES),
            ("storage.k8s.io/v1/storageclasses", class_json(STATIC, delayed=False), STATIC),
            (
                "storage.k8s.io/v1/storageclasses",
                class_json(LATE, provisioner=provisioner.name),
                LATE,
            ),
        )
        for path, body, name in made:
            cp.client.create(f"/apis/{path}", {**body, "metadata": {"name": name}})
        try:
            yield
        finally:
            for path, _, name in made:
                cp.client.delete_if_there(f"/apis/{path}/{name}")


def template_of(body: Json) -> Json:
    """The part of a workload that describes its pods."""
    found: Json = body if body["kind"] == "Pod" else body["spec"]["template"]
    return found


def use_devices(body: Json, count: int) -> None:
    """Each pod of the workload gets a claim of this many devices."""
    template = template_of(body)
    template["spec"] = with_claim(template, template=devices_template(count))["spec"]


def devices_template(count: int) -> str:
    """The name of the ResourceClaimTemplate."""
    return f"devices-{count}"


def devices_spec(count: int) -> Json:
    """The spec of a claim of devices."""
    return claim_spec(DEVICES, count=count)


def slice_of(node: str, count: int) -> Json:
    """The devices of a node."""
    return slice_json(node, *(f"gpu-{at}" for at in range(count)), driver=DRIVER)


def use_data(
    rng: Random, body: Json, volume: str, nodes: tuple[FakeNode, ...], zones: tuple[str, ...]
) -> WorkloadVolume:
    """All pods of the workload mount one claim: bound on a node or in a zone, or not bound yet."""
    name = f"data-{body['metadata']['name']}"
    template_of(body)["spec"] |= uses(name)
    kind = rng.choice(("zone", "host", "late"))
    if kind == "late":
        return WorkloadVolume(claim_json(name, class_name=LATE, modes=SHARED))
    zone = rng.choice(zones) if kind == "zone" else ""
    host = rng.choice(nodes).name if kind == "host" else ""
    return WorkloadVolume(
        claim_json(name, class_name=STATIC, modes=SHARED, volumeName=volume),
        volume_json(volume, class_name=STATIC, modes=SHARED, host=host, zone=zone),
    )
