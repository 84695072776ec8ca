"""Compute domains on the real API server: a user's objects and the resulting ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra_objects import ROLES, Dra, claiming, kube_scheduler
from tests.controlplane.gpu_nodes import wait_kind
from tests.controlplane.workloads import Json, Watcher
from tests.leftovers import delete_kinds
from tools.controlplane import ControlPlane, ControlPlaneError
from tools.fake_operator import FakeOperator
from tools.product import ROOT

POOL = "run.ai/simulated-gpu-node-pool"
CRD, CLASSES = "crd-computedomains.yaml", "fakegpu-domains-classes.yaml"
OFFERS = (ROLES, "fakegpu-domains-rbac.yaml", CRD, CLASSES)
DRIVER = "compute-domain.nvidia.com"
KIND = "/apis/resource.nvidia.com/v1beta1/computedomains"


@pytest.fixture(scope="module")
def operator(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOperator]:
    """With compute domains, and without DRA of GPUs."""
    on = {"computeDomains": {"enabled": True}}
    running = FakeOperator(cp, tmp_path_factory.mktemp("fakegpu"), config=on)
    try:
        running.install(*OFFERS)
        wait_kind(cp, KIND)
        running.configure({"nodePools": {"gb": {"gpu": {"profile": "gb200"}}}})
        with running:
            yield running
            # While the controller that removes the finalizers still runs.
            delete_kinds(cp, ROOT / "cluster" / CRD)
    finally:
        delete_kinds(cp, *(ROOT / "cluster" / name for name in (CLASSES, CRD)))


class Domains(Dra):
    """Compute domains of one namespace."""

    def __init__(self, cp: ControlPlane, namespace: str) -> None:
        super().__init__(cp)
        self.path = f"/apis/resource.nvidia.com/v1beta1/namespaces/{namespace}/computedomains"
        self.templates = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"

    def new(self, name: str, nodes: int, template: str, **channel: str) -> Json:
        spec = {
            "numNodes": nodes,
            "channel": {"resourceClaimTemplate": {"name": template}, **channel},
        }
        body = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain"}
        meta = {"name": name}
        made: Json = self.client.create(self.path, {**body, "metadata": meta, "spec": spec})
        return made

    def wait_status(self, name: str, ready: str, nodes: list[str]) -> Json:
        def fits(seen: Json) -> bool:
            status = seen.get("status") or {}
            found = [one["name"] for one in status.get("nodes", ())]
            return (status.get("status"), found) == (ready, nodes)

        seen: Json = self.client.wait_for(
            f"{self.path}/{name}", fits, what=f"domain {name} {ready} with {nodes}"
        )
        return seen

    def wait_template(self, name: str, check: Any) -> Json:
        seen: Json = self.client.wait_for(
            f"{self.templates}/{name}", check, what=f"template {name}"
        )
        return seen


@pytest.fixture
def domains(cp: ControlPlane, operator: FakeOperator, namespace: str) -> Domains:
    assert operator.pid
    return Domains(cp, namespace)


@pytest.mark.contract("S1-71")
def test_domain_creates_its_claim_template(domains: Domains) -> None:
    """Labels, parameters with the domain's uid, one channel of the class; a domain for no nodes in
    particular is ready at once."""
    made = domains.new("wide", 0, "wide-channel")

    template = domains.wait_template("wide-channel", lambda seen: seen is not None)
    labels = template["metadata"]["labels"]
    assert labels["resource.nvidia.com/computeDomain"] == "wide"
    assert labels["resource.nvidia.com/computeDomainTarget"] == "workload"
    assert template["spec"]["metadata"]["labels"] == {"nvidia.com/computeDomain": "wide"}
    devices = template["spec"]["spec"]["devices"]
    assert devices["requests"] == [
        {
            "name": "channel",
            "exactly": {
                "deviceClassName": "compute-domain-default-channel.nvidia.com",
                "allocationMode": "ExactCount",
                "count": 1,
            },
        }
    ]
    assert devices["config"][0]["opaque"] == {
        "driver": DRIVER,
        "parameters": {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomainChannelConfig",
            "domainID": made["metadata"]["uid"],
            "allocationMode": "Single",
        },
    }
    domains.wait_status("wide", "Ready", [])


@pytest.mark.contract("S1-71")
def test_claim_template_is_restored_and_deleted_with_its_domain(domains: Domains) -> None:
    """Recreated after a deletion; gone with the domain, whose finalizer is
    ``computedomain.resource.nvidia.com/finalizer``."""
    domains.new("wide", 0, "wide-channel")
    template = domains.wait_template("wide-channel", lambda seen: seen is not None)
    ready = domains.wait_status("wide", "Ready", [])
    assert ready["metadata"]["finalizers"] == ["computedomain.resource.nvidia.com/finalizer"]
    before = template["metadata"]["uid"]
    domains.client.delete(f"{domains.templates}/wide-channel")
    domains.wait_template(
        "wide-channel", lambda seen: seen is not None and seen["metadata"]["uid"] != before
    )
    domains.client.delete(f"{domains.path}/wide")
    domains.wait_template("wide-channel", lambda seen: seen is None)
    domains.client.wait_for(
        f"{domains.path}/wide", lambda seen: seen is None, what="the domain to go"
    )


@pytest.mark.contract("S1-70")
def test_domain_is_immutable_and_validated(domains: Domains) -> None:
    """The CRD ``computedomains.resource.nvidia.com``, version v1beta1."""
    domains.new("fixed", 2, "fixed-channel", allocationMode="All")

    with pytest.raises(ControlPlaneError, match="cannot be changed"):
        domains.client.patch(f"{domains.path}/fixed", {"spec": {"numNodes": 3}})
    with pytest.raises(ControlPlaneError, match="allocationMode"):
        domains.new("odd", 1, "odd-channel", allocationMode="Some")
    with pytest.raises(ControlPlaneError, match="numNodes"):
        domains.new("negative", -1, "negative-channel")


@pytest.mark.contract("S1-71", "S1-72", "S1-73")
def test_domain_is_ready_when_enough_nodes_have_pods_with_channels(
    cp: ControlPlane, domains: Domains, kwok_node: MakeNode, namespace: str
) -> None:
    """``channel-0`` of ``kwok-<node>-compute-domain-channel``, one for each node, allocated by the
    real kube-scheduler; not ready again when a pod goes; slices go with the label."""
    for name in ("cd-1", "cd-2"):
        kwok_node(name, labels={POOL: "gb"})
    (device,) = domains.wait_devices("cd-1", 1)
    domains.wait_devices("cd-2", 1)
    (published,) = domains.slices("cd-1")
    assert published["metadata"]["name"] == "kwok-cd-1-compute-domain-channel"
    assert published["spec"]["driver"] == DRIVER
    assert device == {
        "name": "channel-0",
        "attributes": {f"{DRIVER}/type": {"string": "channel"}, f"{DRIVER}/id": {"int": 0}},
    }
    domains.new("pair", 2, "pair-channel")
    domains.wait_status("pair", "NotReady", [])
    here = Watcher(cp, namespace)

    with kube_scheduler(cp):
        for name in ("worker-0", "worker-1"):
            here.create(claiming(name, template="pair-channel"))
        assert [domains.given(namespace, name) for name in ("worker-0", "worker-1")] == [
            ["channel-0"],
            ["channel-0"],
        ]
    seen = domains.wait_status("pair", "Ready", ["cd-1", "cd-2"])
    assert [one["index"] for one in seen["status"]["nodes"]] == [0, 1]

    node = cp.client.get(here.path("Pod", "worker-0"))["spec"]["nodeName"]
    here.client.delete(here.path("Pod", "worker-0"), {"gracePeriodSeconds": 0})
    left = [name for name in ("cd-1", "cd-2") if name != node]
    domains.wait_status("pair", "NotReady", left)
    domains.change("cd-1", labels={POOL: None})
    domains.wait_slices("cd-1", "nothing", lambda found: found == [])
