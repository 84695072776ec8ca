"""Maps on the real API server: seed 002's example, rollouts, tenants, every kind of controller."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import (
    SEED_MAP,
    Watcher,
    annotation,
    away,
    controlled,
    cuda,
    job,
    node_of,
    pod,
    wait_logged,
    why,
)
from tests.patience import PATIENCE_S
from tools.controlplane import ControlPlane
from tools.product import Product

MAP = "gpu-scheduling-map"
CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture
def seed_nodes(kwok_node: MakeNode) -> list[str]:
    """Seed 002's four workers: labelled, and without GPUs of their own."""
    return [
        kwok_node(f"worker{n}", labels={"gpu-node-name": f"node{n}", "gpu-node": f"node{n}"})
        for n in range(1, 5)
    ]


def seed_set(name: str = "check", text: str = SEED_MAP, replicas: int = 5) -> dict[str, object]:
    return controlled("StatefulSet", name, replicas=replicas, annotations={MAP: text})


@pytest.mark.smoke
@pytest.mark.contract("S2-1", "S2-6", "S2-8", "S2-14", "S2-19", "S2-B1", "S2-B7")
def test_five_seed_pods_land_on_mapped_nodes_and_see_their_devices(
    here: Watcher, product: Product, seed_nodes: list[str]
) -> None:
    """Pods 0 to 4: 0,1 - 2 - 0,1,2 - 3 - 3; the sixth has no line and says so."""
    here.create(seed_set(replicas=6))

    bound = [item for item in here.wait_bound(5) if node_of(item)]

    assert [(node_of(item), cuda(item)) for item in bound] == [
        ("worker1", "0,1"),
        ("worker2", "2"),
        ("worker3", "0,1,2"),
        ("worker4", "3"),
        ("worker4", "3"),
    ]
    here.wait_explained("check-5", "has no line for index 5")
    line = "Successfully scheduled pod check-0 to node worker1 (GPU devices: 0,1)"
    wait_logged(product, "scheduler", line)
    assert product.is_running("scheduler"), "five successful Bindings end no process"


def test_two_namespaces_with_the_same_map_text_do_not_share_a_device(
    here: Watcher, seed_nodes: list[str], cp: ControlPlane
) -> None:
    here.create(seed_set())
    here.wait_bound(5)
    cp.client.create("/api/v1/namespaces", {"metadata": {"name": here.namespace + "-b"}})
    cp.wait_for_service_account(here.namespace + "-b")
    other = Watcher(cp, here.namespace + "-b")
    try:
        other.create(seed_set())
        other.wait_explained("check-0", "held by a pod that does not share it")

        assert not any(node_of(item) for item in other.pods())
    finally:
        cp.client.delete(f"/api/v1/namespaces/{other.namespace}")
        other.wait("the other tenant's pods to go", lambda items: not items)


@pytest.mark.contract("S2-B6")
def test_a_rollout_finishes_after_the_map_was_edited(here: Watcher, seed_nodes: list[str]) -> None:
    """A line is added and two lines are swapped while the set runs."""
    here.create(seed_set())
    here.wait_bound(5)
    edited = "0=node1:0,1\n1=node3:0,1,2\n2=node2:2\n3=node4:3\n4=node4:3\n5=node1:2\n"
    patch = {"spec": {"template": {"metadata": {"annotations": {MAP: edited}}}}}
    here.client.patch(here.path("StatefulSet", "check"), patch)

    here.client.wait_for(
        here.path("StatefulSet", "check"),
        lambda seen: (
            seen["status"].get("observedGeneration") == seen["metadata"]["generation"]
            and seen["status"].get("updatedReplicas") == 5
            and seen["status"].get("readyReplicas") == 5
            and seen["status"]["currentRevision"] == seen["status"]["updateRevision"]
        ),
        what="the rollout to finish",
        timeout_s=3 * PATIENCE_S,
    )

    assert [(node_of(item), cuda(item)) for item in here.pods()] == [
        ("worker1", "0,1"),
        ("worker3", "0,1,2"),
        ("worker2", "2"),
        ("worker4", "3"),
        ("worker4", "3"),
    ]


@pytest.mark.contract("S2-B9")
def test_replicas_of_a_deployment_get_the_lines_of_the_map_one_each(
    here: Watcher, seed_nodes: list[str]
) -> None:
    """Their names say nothing; the index is chosen at bind and read through the downward API."""
    here.create(
        controlled(
            "Deployment", "serve", replicas=3, annotations={MAP: "0=node1:0\n1=node1:1\n2=node2:0"}
        )
    )

    items = here.wait_bound(3)

    assert sorted((annotation(i, "gpu-scheduler.io/pod-index"), cuda(i)) for i in items) == [
        ("0", "0"),
        ("1", "1"),
        ("2", "0"),
    ]


def test_an_indexed_job_reads_its_completion_index(here: Watcher, seed_nodes: list[str]) -> None:
    here.create(
        job("train", completions=2, indexed=True, annotations={MAP: "0=node1:3\n1=node2:1"})
    )

    items = here.wait(
        "two placed pods", lambda found: sum(1 for item in found if node_of(item)) == 2
    )

    assert sorted((node_of(item), cuda(item)) for item in items) == [
        ("worker1", "3"),
        ("worker2", "1"),
    ]


def test_surge_pod_names_index_holders_and_advice(here: Watcher, seed_nodes: list[str]) -> None:
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    here.create(
        controlled("Deployment", "solo", replicas=1, annotations={MAP: "0=node1:0"}, strategy=surge)
    )
    here.wait_bound(1)
    patch = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
    here.client.patch(here.path("Deployment", "solo"), patch)

    items = here.wait(
        "the new pod's reason",
        lambda found: any("IndexHeldByOlderRevision" in why(item) for item in found),
    )

    assert any("maxSurge: 0" in why(item) for item in items)


@pytest.mark.contract("S2-B7", "S2-9")
def test_a_pod_waits_for_its_node_and_starts_when_the_node_appears(
    here: Watcher, product: Product, kwok_node: MakeNode
) -> None:
    kwok_node("worker8")
    here.create(pod("late-0", annotations={MAP: "0=late:1"}))
    here.wait_explained("late-0", "no node is named late or labelled gpu-node-name=late")
    here.wait_told("late-0", "FailedScheduling")
    events = [e for e in here.events("late-0") if e["reason"] == "FailedScheduling"]
    assert [e["reportingController"] for e in events] == ["gpu-scheduler"]

    kwok_node("worker9", labels={"gpu-node-name": "late"})

    (item,) = here.wait_bound(1)
    assert (node_of(item), cuda(item)) == ("worker9", "1")


@pytest.mark.contract("S2-B6")
def test_map_respects_cordon_taints_and_capacity(
    here: Watcher, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    kwok_node("tainted", taints=[{"key": "maint", "value": "x", "effect": "NoSchedule"}])
    kwok_node("cordoned")
    cp.client.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}})
    kwok_node("small", resources={"cpu": "1"})
    here.create(pod("a-0", annotations={MAP: "0=tainted:0"}))
    here.create(pod("b-0", annotations={MAP: "0=cordoned:0"}))
    here.create(pod("c-0", annotations={MAP: "0=small:0"}, limits={"cpu": "2"}))

    here.wait_explained("a-0", "untolerated taint {maint: x}")
    here.wait_explained("b-0", "node(s) were unschedulable")
    here.wait_explained("c-0", "Insufficient cpu (need 2; best node has 1 free)")

    cp.client.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": None}})
    here.wait("b-0 to be bound", lambda found: any(node_of(i) == "cordoned" for i in found))


def test_devices_of_a_node_with_known_count_are_checked(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("gpus", gpus=4, labels={"gpu-scheduler.io/devices": "numbered"})
    here.create(pod("over-0", annotations={MAP: "0=gpus:4"}))
    here.wait_explained("over-0", "without GPU 4 (the node has 4)")
    here.create(pod("shares-0", annotations={MAP: "0=gpus:3,1"}, limits={"nvidia.com/gpu": "2"}))

    items = here.wait("one bound pod", lambda found: any(node_of(item) for item in found))

    (placed,) = [item for item in items if node_of(item)]
    assert cuda(placed) == "3,1"
    assert annotation(placed, "gpu-scheduler.io/devices") == "gpu:3,1"


@pytest.mark.contract("S2-B17")
def test_unlabelled_namespace_gets_a_map_permission_reason(
    cp: ControlPlane, product: Product, here: Watcher, kwok_node: MakeNode, tmp_path: Path
) -> None:
    """The chart's default; the policy hook that the seed did not have."""
    kwok_node("policed", labels={"gpu-node-name": "policed"})
    strict = Product(cp, tmp_path / "strict", config={"maps": {"allow": "labelled"}})
    strict.directory.mkdir()
    with away(product, "scheduler"), closing(strict):
        strict.start_scheduler()
        here.create(pod("asks-0", annotations={MAP: "0=policed:0"}))
        here.wait_explained("asks-0", "label it gpu-scheduler.io/maps=allowed")
        label = {"metadata": {"labels": {"gpu-scheduler.io/maps": "allowed"}}}
        cp.client.patch(f"/api/v1/namespaces/{here.namespace}", label)

        here.wait_bound(1)


@pytest.mark.contract("S2-B11")
def test_a_bad_line_is_refused_at_creation_with_its_number(here: Watcher, product: Product) -> None:
    with pytest.raises(Exception, match="line 2") as refusal:
        here.create(pod("bad-0", annotations={MAP: "0=node1:0\n1=node2"}))

    assert "no devices" in str(refusal.value) or "expected" in str(refusal.value)
    assert json.dumps(here.pods()) == "[]"


@pytest.mark.contract("S2-B9")
def test_after_a_drain_replicas_take_free_lines_and_return_later(
    here: Watcher, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    """Two replicas of three lines: the node of line 0 is drained, and a third replica comes."""
    for number in range(3):
        kwok_node(f"line{number}")
    text = "".join(f"{number}=line{number}:0\n" for number in range(3))
    here.create(controlled("Deployment", "serve", replicas=2, annotations={MAP: text}))
    first, second = here.wait_bound(2)
    assert {node_of(first), node_of(second)} == {"line0", "line1"}

    cp.client.patch("/api/v1/nodes/line0", {"spec": {"unschedulable": True}})
    drained = first if node_of(first) == "line0" else second
    here.evict(drained["metadata"]["name"])
    here.wait_bound_to({"line1", "line2"})
    here.client.patch(here.path("Deployment", "serve"), {"spec": {"replicas": 3}})
    waiting = here.wait(
        "the third replica's reason", lambda found: len([i for i in found if why(i)]) == 1
    )

    assert [why(item) for item in waiting if why(item)] == [
        f"0/{len(cp.client.get('/api/v1/nodes')['items'])} nodes are available: no line of"
        " gpu-scheduling-map is available: line 0 on node line0: node(s) were unschedulable;"
        " 2 of 3 lines are held by its siblings."
    ]
    cp.client.patch("/api/v1/nodes/line0", {"spec": {"unschedulable": None}})
    here.wait_bound_to({"line0", "line1", "line2"})


@pytest.mark.contract("S2-B9")
def test_training_workers_get_the_lines_of_their_replica_indexes(
    here: Watcher, seed_nodes: list[str]
) -> None:
    """Worker 1 comes before worker 0, and again after it was deleted."""
    workers = [
        document
        for document in yaml.safe_load_all((CASES / "05-mpijob-worker-index.yaml").read_text())
        if document["kind"] == "Pod"
    ]
    for worker in workers:
        here.create(worker)
    placed = here.wait_bound(2)

    assert [(item["metadata"]["name"], node_of(item), cuda(item)) for item in placed] == [
        ("cifar-worker-0", "worker1", "0,1"),
        ("cifar-worker-1", "worker2", "0,1"),
    ]
    here.client.delete(f"{here.pods_path}/cifar-worker-1?gracePeriodSeconds=0")
    here.wait("worker 1 to go", lambda items: len(items) == 1)
    here.create(workers[0])
    again = here.wait_bound(2)
    assert [node_of(item) for item in again] == ["worker1", "worker2"]


def test_roles_of_one_training_job_count_the_lines_of_their_own_maps(
    here: Watcher, seed_nodes: list[str]
) -> None:
    documents = yaml.safe_load_all((CASES / "02-pytorchjob-roles-with-own-maps.yaml").read_text())
    for document in documents:
        if document["kind"] == "Pod":
            here.create(document)

    assert [(node_of(item), cuda(item)) for item in here.wait_bound(3)] == [
        ("worker1", "0,1"),
        ("worker2", "0,1"),
        ("worker2", "2,3"),
    ]
