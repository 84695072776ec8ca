"""Claims that are bound, or get an existing volume, with the real PV controller."""

from __future__ import annotations

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.volumes.conftest import VOLUMES, Storage
from tests.controlplane.workloads import node_of
from tests.storage import ZONE, csi


def test_a_bound_volume_keeps_its_pod_on_its_node(here: Storage, kwok_node: MakeNode) -> None:
    """Case 42: only the nodes of the volume."""
    for name in ("bound-1", "bound-2", "bound-3"):
        kwok_node(name)
    here.storage_class(delayed=False)
    here.volume(host="bound-2")
    here.claim()
    here.wait_bound_claim()

    here.user("a")

    here.wait_bound_to({"bound-2"})


def test_a_bound_volume_keeps_its_pod_in_its_zone(here: Storage, kwok_node: MakeNode) -> None:
    for zone in "ab":
        kwok_node(f"zoned-{zone}", labels={ZONE: zone})
    here.storage_class(delayed=False)
    here.volume(labels={ZONE: "b"})
    here.claim()
    here.wait_bound_claim()

    here.user("a", nodeSelector={ZONE: "a"})
    here.wait_explained("a", "node(s) had no available volume zone (claim data; volume ")
    here.user("b")
    here.wait("b on its zone's node", lambda items: "zoned-b" in map(node_of, items))


@pytest.mark.smoke
def test_a_claim_gets_the_smallest_volume_of_the_chosen_node(
    here: Storage, kwok_node: MakeNode
) -> None:
    """The claim waits for its pod; the Binding waits for the claim."""
    kwok_node("static-1", gpus=1)
    here.storage_class()
    for name, size in (("large", "10Gi"), ("fitting", "5Gi"), ("small", "1Gi")):
        here.volume(name, storage=size, host="static-1")
    here.claim(storage="2Gi")

    here.user("a", limits={"nvidia.com/gpu": "1"})
    [bound] = here.wait_bound(1)

    assert node_of(bound) == "static-1"
    assert here.volume_of() == "fitting"
    volume = here.client.get(f"{VOLUMES}/{here.named('fitting')}")
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"


@pytest.mark.kubernetes("1.35", "the API server keeps the nominated node of a bound pod before")
def test_a_bound_pod_with_a_claim_has_no_nominated_node(here: Storage, kwok_node: MakeNode) -> None:
    kwok_node("nominated-1", gpus=1)
    here.storage_class()
    here.volume("only", storage="5Gi", host="nominated-1")
    here.claim(storage="2Gi")

    here.user("a", limits={"nvidia.com/gpu": "1"})
    [bound] = here.wait_bound(1)

    assert not bound["status"].get("nominatedNodeName")


def test_two_claims_of_a_pod_get_volumes_of_one_node(here: Storage, kwok_node: MakeNode) -> None:
    for name in ("two-1", "two-2"):
        kwok_node(name)
    here.storage_class()
    here.volume("alone", host="two-1", storage="5Gi")
    here.volume("first", host="two-2", storage="5Gi")
    here.volume("second", host="two-2", storage="5Gi")
    for name in ("data", "logs"):
        here.claim(name)

    here.user("a", "data", "logs")

    here.wait_bound_to({"two-2"})
    assert {here.volume_of("data"), here.volume_of("logs")} == {"first", "second"}


def test_two_pods_never_get_one_volume(here: Storage, kwok_node: MakeNode) -> None:
    """The second pod waits with a reason that names claim, class and provisioner, until there is a
    volume."""
    kwok_node("once-1")
    here.storage_class()
    here.volume("only", host="once-1")
    for name in ("data", "more"):
        here.claim(name)
    here.user("a", "data")
    here.wait_bound(1)

    here.user("b", "more")
    text = "didn't find available persistent volumes to bind (claim more; class "
    named = f"{here.named('local')}; provisioner kubernetes.io/no-provisioner)"
    here.wait_explained("b", text + named)
    here.volume("later", host="once-1")

    here.wait_bound(2)
    assert here.volume_of("more") == "later"


def test_an_unbound_immediate_claim_is_named_with_its_provisioner(
    here: Storage, kwok_node: MakeNode
) -> None:
    kwok_node("waits-1")
    fast = here.storage_class("fast", delayed=False, provisioner="absent.example/disk")
    here.claim(class_name="fast")
    here.user("a")

    here.wait_explained(
        "a",
        "pod has unbound immediate PersistentVolumeClaims"
        f" (claim data: class {fast}: provisioner absent.example/disk)",
    )


def test_missing_claim_is_named_and_its_pod_is_bound_once_it_exists(
    here: Storage, kwok_node: MakeNode
) -> None:
    kwok_node("missing-1")
    here.user("a")
    here.wait_explained("a", 'persistentvolumeclaim "data" not found')

    here.storage_class(delayed=False)
    here.volume()
    here.claim()

    here.wait_bound(1)


def test_a_volume_of_a_csi_driver_counts_on_its_node(here: Storage, kwok_node: MakeNode) -> None:
    """One volume per node; the driver's own word for it is in the CSINode."""
    nodes = {kwok_node(f"limit-{number}") for number in (1, 2)}
    driver = here.named("disk.example")
    for name in sorted(nodes):
        spec = {"drivers": [{"name": driver, "nodeID": name, "allocatable": {"count": 1}}]}
        here.make("/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": name}, "spec": spec})
    here.storage_class(delayed=False)
    for number in "abc":
        here.volume(number, **csi(driver, number))
        here.claim(number)
        here.wait_bound_claim(number)
        here.user(number, number)

    here.wait_bound_to(nodes)
    [waits] = [one for one in here.pods() if not node_of(one)]
    name = waits["metadata"]["name"]
    here.wait_explained(name, f"2 node(s) exceed max volume count (driver {driver}) (need 1")


def test_one_pod_at_a_time_uses_a_read_write_once_pod_claim(
    here: Storage, kwok_node: MakeNode
) -> None:
    """Case 42: it waits for the other one's end, on any node."""
    for name in ("rwop-1", "rwop-2"):
        kwok_node(name)
    here.storage_class(delayed=False)
    here.volume(modes=["ReadWriteOncePod"], **csi("disk.example", here.named("pv")))
    here.claim(modes=["ReadWriteOncePod"])
    here.wait_bound_claim()
    here.user("a")
    here.wait_bound(1)

    here.user("b")
    here.wait_explained("b", "already in-use by another pod (claim data; pod a)")
    here.client.delete(here.path("Pod", "a"))

    here.wait("b to be bound", lambda items: [bool(node_of(one)) for one in items] == [True])


def test_map_and_bound_volume_that_disagree_are_one_reason(
    here: Storage, kwok_node: MakeNode
) -> None:
    for name in ("map-1", "map-2"):
        kwok_node(name)
    here.storage_class(delayed=False)
    here.volume(host="map-2")
    here.claim()
    here.wait_bound_claim()

    here.user("m-0", annotations={"gpu-scheduling-map": "0=map-1:0"})

    here.wait_explained(
        "m-0",
        "node affinity: the map names node map-1 and claim data is bound to volume"
        f" {here.named('pv')} (kubernetes.io/hostname In map-2)",
    )
