"""Claims on the slices and classes of the fake GPU operator, allocated by gpu-scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra_objects import (
    CLASSES,
    ROLES,
    SEED_NODE,
    SEED_POD,
    Dra,
)
from tests.controlplane.dra_objects import claiming as claiming_default
from tests.controlplane.workloads import Json, Watcher
from tests.dra import claim_spec
from tools.controlplane import ControlPlane, wait_until
from tools.fake_operator import FakeOperator
from tools.product import ROOT, Product

pytestmark = pytest.mark.kubernetes("1.36", "DRAPartitionableDevices is off by default before")

POOL = "run.ai/simulated-gpu-node-pool"
OURS = "schedulerName: gpu-scheduler"
#: A pod of gpu-scheduler with one claim.
claiming = partial(claiming_default, scheduler="gpu-scheduler")
PARTITIONS = ("4g.40gb", "3g.40gb")


@pytest.fixture(scope="module")
def nodes(
    cp: ControlPlane, product: Product, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dra]:
    assert product.is_running("scheduler")
    dra = {"dra": {"kwok": "instead", "partitionable": True}}
    running = FakeOperator(cp, tmp_path_factory.mktemp("fakegpu"), config=dra)
    try:
        running.install(ROLES, CLASSES)
        two = {"gpus": [{"type": "h100", "count": 2}]}
        running.configure({"nodePools": {"two": two, "default": two}})
        with running:
            yield Dra(cp)
    finally:
        cp.kubectl("delete", "--ignore-not-found", "-f", str(ROOT / "cluster" / CLASSES))


def is_complete(slices: list[Json]) -> bool:
    return bool(slices) and len(slices) == slices[0]["spec"]["pool"]["resourceSliceCount"]


def test_claims_get_distinct_gpus_and_a_shared_claim_gets_one(
    cp: ControlPlane, nodes: Dra, kwok_node: MakeNode, namespace: str
) -> None:
    """The claims of the seed: a template with NVIDIA's class, and a claim that two pods share."""
    kwok_node("fake-whole", labels={POOL: "two"})
    nodes.wait_slices("fake-whole", "all of it", is_complete)
    nodes.make(namespace, "resourceclaimtemplates", "gpu-claim", {"spec": claim_spec()})
    nodes.make(namespace, "resourceclaims", "shared", claim_spec())
    here = Watcher(cp, namespace)

    here.create(claiming("one", template="gpu-claim"))
    for name in ("with", "each-other"):
        here.create(claiming(name, claim="shared"))

    given = {name: nodes.given(namespace, name) for name in ("one", "with", "each-other")}
    assert given["with"] == given["each-other"]
    assert sorted(given["one"] + given["with"]) == ["gpu-0", "gpu-1"]


@pytest.mark.contract("S1-69")
def test_seed_manifests_run_with_our_scheduler_name(
    cp: ControlPlane, nodes: Dra, namespace: str
) -> None:
    """The KWOK example of its README, to whose pod one line is added."""
    manifest = SEED_POD.replace("  nodeSelector:", f"  {OURS}\n  nodeSelector:")
    assert OURS in manifest
    try:
        cp.kubectl("apply", "-f", "-", input=SEED_NODE)
        nodes.wait_slices("kwok-gpu-node-1", "all of it", is_complete)
        cp.kubectl("apply", "-n", namespace, "-f", "-", input=manifest)

        (device,) = nodes.given_on(namespace, "kwok-gpu-pod")
        pod = cp.client.wait_for(
            f"/api/v1/namespaces/{namespace}/pods/kwok-gpu-pod",
            lambda seen: seen["status"]["phase"] == "Running",
            what="the pod to run",
        )

        assert device in {"kwok-gpu-node-1/gpu-0", "kwok-gpu-node-1/gpu-1"}
        claimed = f"claim:{device.partition('/')[2]}"
        assert pod["metadata"]["annotations"][well_known.DEVICES] == claimed
    finally:
        cp.kubectl("delete", "pod", "-n", namespace, "--all", "--force", "--grace-period=0")
        cp.kubectl("delete", "node", "kwok-gpu-node-1", "--ignore-not-found")


def test_partitions_are_packed_and_exclude_the_whole_gpu(
    cp: ControlPlane, nodes: Dra, kwok_node: MakeNode, namespace: str
) -> None:
    """A 4g and a 3g share one of two GPUs, so the other one stays whole."""
    kwok_node("fake-parts", labels={POOL: "two"})
    nodes.wait_slices("fake-parts", "all of it", is_complete)
    for profile in PARTITIONS:
        cel = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
        spec = claim_spec("mig.nvidia.com", selectors=[{"cel": {"expression": cel}}])
        nodes.make(namespace, "resourceclaimtemplates", profile[:2], {"spec": spec})
    nodes.make(namespace, "resourceclaimtemplates", "whole", {"spec": claim_spec()})
    here = Watcher(cp, namespace)

    devices = []
    for name in ("4g", "3g", "whole"):
        here.create(claiming(f"has-{name}", template=name))
        devices += nodes.given(namespace, f"has-{name}")
    here.create(claiming("wants-whole", template="whole"))
    here.wait_explained("wants-whole", "cannot allocate all claims")

    four, three, whole = devices
    assert four.split("-mig-")[0] == three.split("-mig-")[0]
    assert {four.split("-mig-")[0], whole} == {"gpu-0", "gpu-1"}
    for name in ("has-4g", "has-3g"):
        here.client.delete(here.path("Pod", name), {"gracePeriodSeconds": 0})
    wait_until(
        lambda: bool(nodes.given(namespace, "wants-whole")), what="a whole GPU to be free again"
    )
