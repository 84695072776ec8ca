"""Claims whose volumes are provisioned on the chosen node, by a provisioner of our own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.volumes.conftest import Storage
from tests.controlplane.workloads import Json, away, node_of, pod
from tests.provisioner import Provisioner
from tests.storage import SELECTED, ZONE, uses
from tools.controlplane import wait_until
from tools.product import Product


@pytest.fixture
def provisioner(here: Storage) -> Iterator[Provisioner]:
    """A provisioner of this test alone, and a class ``fast`` of it."""
    with Provisioner(here.client, here.named("disk.example")) as running:
        here.storage_class("fast", provisioner=running.name)
        yield running


def selected(claim: Json) -> str:
    """The node that is selected for a claim."""
    return str(claim["metadata"].get("annotations", {}).get(SELECTED, ""))


@pytest.mark.smoke
def test_the_binding_waits_until_the_volume_is_provisioned(
    here: Storage, kwok_node: MakeNode, provisioner: Provisioner
) -> None:
    """Case 41. Meanwhile the condition and the nominated node say what the pod waits for."""
    kwok_node("dynamic-1", gpus=1)
    provisioner.is_paused = True
    here.claim(class_name="fast")
    here.user("a", limits={"nvidia.com/gpu": "1"})

    waiting = here.wait_explained("a", "waits for PersistentVolumeClaims to be bound: data")
    assert waiting["status"]["nominatedNodeName"] == "dynamic-1"
    assert f"(class {here.named('fast')}; provisioner {provisioner.name})" in str(waiting["status"])
    assert not node_of(waiting)
    here.wait_claim("data", "to have a node", lambda one: selected(one) == "dynamic-1")
    provisioner.is_paused = False

    [bound] = here.wait_bound(1)
    assert node_of(bound) == "dynamic-1"
    # The PV controller writes the phase last, after what kube-scheduler and this one wait for.
    here.wait_claim("data", "to be bound", lambda one: one["status"]["phase"] == "Bound")


def test_a_provisioner_that_gives_up_sends_the_pod_elsewhere(
    here: Storage, kwok_node: MakeNode, provisioner: Provisioner
) -> None:
    """Case 41: the annotation is gone, so is the nomination, and another node is tried."""
    for name in ("full-1", "full-2"):
        kwok_node(name, resources={"cpu": "64" if name == "full-1" else "8"})
    provisioner.full = {"full-1"}
    here.claim(class_name="fast")
    here.create(pod("a", limits={"cpu": "1"}, **uses("data")))

    text = "binding volumes failed: provisioning failed for claim data"
    waiting = here.wait_explained("a", text)
    assert not waiting["status"].get("nominatedNodeName")
    provisioner.wait_selected(1)
    assert provisioner.selected[0] == "full-1"
    here.client.patch("/api/v1/nodes/full-1", {"spec": {"unschedulable": True}})

    here.wait_bound_to({"full-2"})


def test_nothing_is_lost_when_the_scheduler_restarts_in_between(
    here: Storage, product: Product, kwok_node: MakeNode, provisioner: Provisioner
) -> None:
    """The claim says for which node its volume is made; the next process goes on from there."""
    for name in ("restart-1", "restart-2"):
        kwok_node(name)
    provisioner.is_paused = True
    here.claim(class_name="fast")
    here.user("a")
    claim = here.wait_claim("data", "to have a node", selected)
    with away(product, "scheduler", crash=True):
        provisioner.is_paused = False
        here.wait_bound_claim()
    [bound] = here.wait_bound(1)
    assert node_of(bound) == selected(claim)

    provisioner.is_paused = True
    here.claim("more", class_name="fast")
    here.user("b", "more")
    claim = here.wait_claim("more", "to have a node", selected)
    with away(product, "scheduler", crash=True):
        pass
    provisioner.is_paused = False
    here.wait_bound(2)
    placed = {one["metadata"]["name"]: node_of(one) for one in here.pods()}
    assert placed["b"] == selected(claim)
    provisioner.wait_selected(2)
    assert provisioner.selected == [placed["a"], placed["b"]]


def test_allowed_topologies_narrow_the_nodes(
    here: Storage, kwok_node: MakeNode, provisioner: Provisioner
) -> None:
    for zone in "ab":
        kwok_node(f"topo-{zone}", labels={ZONE: zone})
    here.storage_class("zonal", provisioner=provisioner.name, zones=["b"])
    here.claim(class_name="zonal")

    here.user("a")

    here.wait_bound_to({"topo-b"})


def test_published_capacity_narrows_the_nodes(
    here: Storage, kwok_node: MakeNode, provisioner: Provisioner
) -> None:
    """A driver with storageCapacity says where a volume of the size fits."""
    for zone in "ab":
        kwok_node(f"cap-{zone}", labels={ZONE: zone})
    driver = {"metadata": {"name": provisioner.name}, "spec": {"storageCapacity": True}}
    here.make("/apis/storage.k8s.io/v1/csidrivers", driver)
    here.claim(class_name="fast", storage="5Gi")
    here.user("a")
    named = f"claim data; class {here.named('fast')}; provisioner {provisioner.name}; needs 5Gi"
    here.wait_explained("a", f"did not have enough free storage ({named})")

    path = f"/apis/storage.k8s.io/v1/namespaces/{here.namespace}/csistoragecapacities"
    for zone, size in (("a", "1Gi"), ("b", "10Gi")):
        body = {
            "metadata": {"name": f"cap-{zone}"},
            "storageClassName": here.named("fast"),
            "nodeTopology": {"matchLabels": {ZONE: zone}},
            "capacity": size,
        }
        here.client.create(path, body)

    here.wait_bound_to({"cap-b"})


def test_an_ephemeral_volume_is_provisioned_for_its_pod(
    here: Storage, kwok_node: MakeNode, provisioner: Provisioner
) -> None:
    """The ephemeral volume controller makes the claim, which the pod owns."""
    kwok_node("ephemeral-1")
    fast = here.named("fast")

    here.create(pod("a", **uses(ephemeral=["scratch"], class_name=fast)))

    here.wait_bound_to({"ephemeral-1"})
    provisioner.wait_selected(1)
    assert provisioner.selected == ["ephemeral-1"]
    here.wait_claim("a-scratch", "to be bound", lambda one: one["status"]["phase"] == "Bound")


def test_a_pod_that_is_deleted_while_it_waits_frees_its_node(
    here: Storage, kwok_node: MakeNode, provisioner: Provisioner
) -> None:
    kwok_node("deleted-1", gpus=1)
    provisioner.is_paused = True
    here.claim(class_name="fast")
    here.user("a", limits={"nvidia.com/gpu": "1"})
    here.wait_claim("data", "to have a node", selected)
    here.client.delete(here.path("Pod", "a"))

    here.create(pod("b", limits={"nvidia.com/gpu": "1"}))

    here.wait("b to be bound", lambda items: any(node_of(one) for one in items))
    wait_until(lambda: [one["metadata"]["name"] for one in here.pods()] == ["b"], what="a to go")
