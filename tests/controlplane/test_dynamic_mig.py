"""Dynamic MIG on the real API server with a responding operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.partition_operator import CUTS, CutOperator
from tests.controlplane.workloads import Json, Watcher, annotation, node_of, pod
from tools.controlplane import ApiError, Client, ControlPlane, wait_until
from tools.product import ACCOUNT, ROOT, Product

DEVICES = "gpu-scheduler.io/devices"
LABELS = {
    "gpu-scheduler.io/mig-dynamic": "true",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
}


@pytest.fixture
def operator(cp: ControlPlane, product: Product) -> Iterator[CutOperator]:
    """An operator for every node; what it was told is gone afterwards."""
    assert product.is_running("scheduler")
    try:
        with CutOperator(cp.client) as running:
            yield running
    finally:
        cp.client.delete(CUTS)


@pytest.fixture
def here(cp: ControlPlane, operator: CutOperator, namespace: str) -> Watcher:
    """A fresh namespace beside an operator."""
    return Watcher(cp, namespace)


def wants(name: str, **profiles: int) -> Json:
    limits = {f"nvidia.com/mig-{_dotted(one)}": str(n) for one, n in profiles.items()}
    return pod(name, limits=limits)


def _dotted(profile: str) -> str:
    """``g2_20`` -> ``2g.20gb``."""
    slices, _, gigabytes = profile.removeprefix("g").partition("_")
    return f"{slices}g.{gigabytes}gb"


def instances(client: Client, node_name: str) -> list[str]:
    """The instances that exist on a node."""
    status = client.get(f"{CUTS}/{node_name}")["status"]["instances"]
    return sorted(
        f"{one['profile']}@{one['gpu']}/{one['start']}" for one in status if one["state"] == "Ready"
    )


def reasons(here: Watcher, name: str) -> set[str]:
    """The reasons of the events about a pod."""
    return {event["reason"] for event in here.events(name)}


@pytest.mark.smoke
def test_instance_is_created_used_idle_and_replaced(here: Watcher, kwok_node: MakeNode) -> None:
    """Requested, created, bound; then idle, and destroyed for a pod that needs its slices."""
    kwok_node("cuts-1", labels=LABELS | {"nvidia.com/gpu.count": "1"})
    here.create(wants("a", g2_20=1))
    here.create(wants("b", g3_40=1))
    first, second = here.wait_bound(2)

    assert {node_of(first), node_of(second)} == {"cuts-1"}
    places = {annotation(first, DEVICES), annotation(second, DEVICES)}
    assert set(instances(here.client, "cuts-1")) == places

    for name in "ab":
        here.client.delete(here.path("Pod", name))
    here.wait("no pods", lambda items: not items)
    here.create(wants("c", g7_80=1))
    [third] = here.wait_bound(1)
    assert annotation(third, DEVICES) == "7g.80gb@0/0"
    assert instances(here.client, "cuts-1") == ["7g.80gb@0/0"]


def test_idle_instance_is_used_without_a_request(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("cuts-2", labels=LABELS | {"nvidia.com/gpu.count": "1"})
    here.create(wants("a", g2_20=1))
    here.wait_bound(1)
    here.client.delete(here.path("Pod", "a"))
    here.wait("no pods", lambda items: not items)

    here.create(wants("b", g2_20=1))
    here.wait_bound(1)

    assert here.client.get(f"{CUTS}/cuts-2")["status"]["instances"][0]["uuid"] == "MIG-1"
    assert "PartitionRequested" not in reasons(here, "b")


def test_failed_gpu_backs_off_and_another_is_partitioned(
    here: Watcher, kwok_node: MakeNode, operator: CutOperator
) -> None:
    operator.refuses = {0}
    kwok_node("cuts-3", labels=LABELS | {"nvidia.com/gpu.count": "2"})
    here.create(wants("a", g2_20=2))
    here.create(wants("b", g1_10=1))
    items = here.wait_bound(2)

    held = "; ".join(str(annotation(item, DEVICES)) for item in items)
    assert "@0/" not in held
    assert held.count("@1/") == 3


@pytest.mark.kubernetes("1.35", "the API server keeps the nominated node of a bound pod before")
def test_a_pod_on_its_partitioned_node_has_no_nominated_node(
    here: Watcher, kwok_node: MakeNode, operator: CutOperator
) -> None:
    operator.is_mute = True
    kwok_node("cuts-4", labels=LABELS | {"nvidia.com/gpu.count": "1"})
    here.create(wants("a", g2_20=1))
    waiting = here.wait_reason("a", "WaitingForCapacity")
    assert waiting["status"]["nominatedNodeName"] == "cuts-4"

    operator.is_mute = False
    [bound] = here.wait_bound(1)

    assert "nominatedNodeName" not in bound["status"]


def test_former_leader_request_is_refused(
    cp: ControlPlane, operator: CutOperator, kwok_node: MakeNode
) -> None:
    scheduler = cp.client_for(ACCOUNT)
    body: Json = {
        "apiVersion": "gpu-scheduler.io/v1alpha1",
        "kind": "MigPartition",
        "metadata": {"name": "cuts-5"},
        "spec": {"epoch": 1, "instances": []},
    }

    with pytest.raises(
        ApiError, match="the request was decided in term 1, and the lease is in term"
    ):
        scheduler.create(CUTS, body)


BAD: list[Any] = [
    pytest.param([{"gpu": 0, "profile": "2g.20gb"}], "start", id="no-start"),
    pytest.param([{"gpu": 0, "profile": "big", "start": 0}], "profile", id="no-profile"),
    pytest.param([{"gpu": -1, "profile": "2g.20gb", "start": 0}], "gpu", id="no-gpu"),
    pytest.param(
        [
            {"gpu": 0, "profile": "2g.20gb", "start": 0},
            {"gpu": 0, "profile": "1g.10gb", "start": 0},
        ],
        "two instances start at the same memory slice",
        id="twice-the-same-slice",
    ),
]


@pytest.mark.parametrize(("orders", "words"), BAD)
def test_api_server_validates_partition_objects(
    cp: ControlPlane, operator: CutOperator, orders: list[Json], words: str
) -> None:
    body = {"metadata": {"name": "cuts-6"}, "spec": {"instances": orders}}

    with pytest.raises(ApiError, match=words):
        cp.client.create(
            CUTS, {"apiVersion": "gpu-scheduler.io/v1alpha1", "kind": "MigPartition", **body}
        )


def test_kubectl_shows_requested_and_existing_partitions(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode, tmp_path: Path
) -> None:
    kwok_node("cuts-7", labels=LABELS | {"nvidia.com/gpu.count": "1"})
    here.create(wants("a", g3_40=1))
    here.wait_bound(1)

    shown = cp.kubectl("-n", "gpu-scheduler-system", "get", "migpartitions", "cuts-7")

    assert shown.splitlines()[0].split() == ["NAME", "REQUESTED", "INSTANCES", "STATE", "AGE"]
    assert shown.splitlines()[1].split()[:4] == ["cuts-7", "3g.40gb", "3g.40gb", "Ready"]


@pytest.mark.contract("S3-B18")
def test_relabel_right_allows_no_other_change_of_a_node(
    cp: ControlPlane, product: Product, kwok_node: MakeNode
) -> None:
    """The right itself is an extra: without it the API server refuses both labels too."""
    manifest = str(ROOT / "cluster" / "rbac-relabel.yaml")
    path = f"/api/v1/nodes/{kwok_node('cuts-8', labels={'zone': 'a'})}"
    scheduler = cp.client_for(ACCOUNT)
    ours = {"nvidia.com/mig.config": "all-2g.20gb", "nvidia.com/mig.config.state": "pending"}
    with pytest.raises(ApiError, match="cannot patch resource"):
        scheduler.patch(path, {"metadata": {"labels": ours}})

    try:
        cp.kubectl("apply", "-f", manifest)
        wait_until(
            lambda: _is_refused(scheduler, path, {"metadata": {"labels": {"zone": None}}}),
            what="the policy to be in force",
        )
        others: list[Json] = [
            {"metadata": {"labels": {"zone": "b"}}},
            {"metadata": {"labels": {"more": "x"}}},
            {"metadata": {"annotations": {"more": "x"}}},
            {"spec": {"unschedulable": True}},
        ]
        assert all(_is_refused(scheduler, path, one) for one in others)

        labels = scheduler.patch(path, {"metadata": {"labels": ours}})["metadata"]["labels"]
        assert ours.items() <= labels.items()
    finally:
        cp.kubectl("delete", "--ignore-not-found", "-f", manifest)


def _is_refused(scheduler: Client, path: str, body: Json) -> bool:
    try:
        scheduler.patch(f"{path}?dryRun=All", body)
    except ApiError as error:
        return "change only the labels of mig-manager on a node" in str(error)
    return False
