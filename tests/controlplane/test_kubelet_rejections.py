"""Refusals that a scheduler did not see, or that the API does not keep: they count all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.broken_node import GPU, HOSTNAME, BrokenNode, broken_node
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Json, Watcher, controlled, fetch, node_of, pod
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

NODE = "refuses"
HERE = {"nodeSelector": {HOSTNAME: NODE}}
UNEXPECTED = "UnexpectedAdmissionError"
UNHEALTHY = (
    f"Allocate failed due to no healthy devices present; cannot allocate unhealthy devices {GPU},"
    " which is unexpected"
)
ONE_IS_THE_MOST = (
    "Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for"
    ' "nvidia.com/gpu": invalid request: maximum request size for shared resources is 1; found 2,'
    " which is unexpected"
)
AVOIDED = "1 node(s) were avoided after they rejected pods like this one"
#: Pods of one sort that a node may refuse before it is avoided: three are enough, and a slow
#: scheduler binds some more before it has read why these failed.
FAILED_MAX = 8
#: Longer than these tests take.
PAUSE_S = 300.0


@pytest.fixture
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A scheduler that has seen nothing yet, and avoids a node for longer than a test takes."""
    config = {"avoidance": {"pauseFirstS": PAUSE_S}}
    running = Product(cp, tmp_path_factory.mktemp("product"), config=config)
    running.start(webhook=False)
    yield running
    running.close()


@pytest.fixture
def refusing(cp: ControlPlane, namespace: str, kwok_node: MakeNode) -> Iterator[BrokenNode]:
    """The one node that these tests' pods can go to."""
    with broken_node(cp, NODE) as node:
        yield node


def restart(product: Product) -> None:
    """Another process, that has seen nothing itself."""
    product.stop("scheduler")
    product.start_scheduler()


def wait_avoided(product: Product, nodes: int) -> None:
    """So many nodes rest."""
    wait_until(
        lambda: f"gpu_scheduler_avoided_nodes {nodes}.0" in fetch(product.health_port, "/metrics"),
        what=f"{nodes} nodes to rest",
    )


def bound(here: Watcher, name: str) -> Json:
    """The pod of that name, once it has a node."""

    def is_it(item: Json) -> bool:
        return item["metadata"]["name"] == name and bool(node_of(item))

    items = here.wait(f"{name} to be bound", lambda items: any(map(is_it, items)))
    return next(item for item in items if is_it(item))


def refused(here: Watcher, node: BrokenNode, names: Callable[[int], str], count: int = 3) -> None:
    """Bare pods that fail one after the other."""
    for number in range(count):
        here.create(pod(names(number), limits={GPU: "1"}, **HERE))
        item = bound(here, names(number))
        node.tell(item, UNEXPECTED, UNHEALTHY)
        node.refuse(item, UNEXPECTED, UNHEALTHY)


def refuse_until_told(here: Watcher, node: BrokenNode, message: str, said: str) -> list[str]:
    """Refuse each pod of one owner, as a kubelet does, until the next one waits and says why.

    The owner's next pod can be bound before the scheduler has read why the last one failed.
    Returns the names of the refused pods, in their order.
    """
    failed: dict[str, str] = {}

    def is_told_after_refusals(items: list[Json]) -> bool:
        for item in items:
            uid = str(item["metadata"]["uid"])
            if node_of(item) and uid not in failed:
                failed[uid] = str(item["metadata"]["name"])
                node.tell(item, UNEXPECTED, message)
                node.refuse(item, UNEXPECTED, message)
        return any(said in str(item["status"].get("conditions")) for item in items)

    here.wait(f"the next pod to be told {said!r}", is_told_after_refusals)
    assert len(failed) <= FAILED_MAX
    return list(failed.values())


def test_restarted_scheduler_counts_failed_pods(
    cp: ControlPlane, product: Product, namespace: str, refusing: BrokenNode
) -> None:
    here = Watcher(cp, namespace)
    refused(here, refusing, "p{}".format)
    wait_avoided(product, 1)

    restart(product)
    here.create(pod("next", limits={GPU: "1"}, **HERE))

    here.wait_explained("next", AVOIDED)
    wait_avoided(product, 1)


def test_rejection_of_a_pod_with_node_name_set_is_not_counted(
    cp: ControlPlane, product: Product, namespace: str, refusing: BrokenNode
) -> None:
    """Otherwise any user could close nodes for others."""
    here = Watcher(cp, namespace)
    for number in range(4):
        item = here.create(pod(f"p{number}", limits={GPU: "1"}, nodeName=NODE))
        refusing.refuse(item, UNEXPECTED, UNHEALTHY)

    here.create(pod("next", limits={GPU: "1"}, **HERE))
    bound(here, "next")
    restart(product)
    here.create(pod("more", limits={GPU: "1"}, **HERE))
    bound(here, "more")


def test_events_of_deleted_pods_count_for_their_own_kind_only(
    cp: ControlPlane, product: Product, namespace: str, refusing: BrokenNode
) -> None:
    here = Watcher(cp, namespace)
    refused(here, refusing, "train-{}".format)
    wait_avoided(product, 1)
    cp.client.delete(here.pods_path, {"gracePeriodSeconds": 0})
    here.wait("all pods to be gone", lambda items: not items)

    restart(product)
    here.create(pod("train-next", limits={GPU: "1"}, **HERE))

    here.wait_explained("train-next", AVOIDED)
    here.create(pod("other", limits={GPU: "1", "cpu": "1"}, **HERE))
    bound(here, "other")


def test_statefulset_deleting_its_failed_pod_still_trips_the_breaker(
    cp: ControlPlane, product: Product, namespace: str, refusing: BrokenNode
) -> None:
    here = Watcher(cp, namespace)
    here.create(controlled("StatefulSet", "web", replicas=1, limits={GPU: "1"}, **HERE))

    refuse_until_told(here, refusing, UNHEALTHY, AVOIDED)

    wait_avoided(product, 1)


def test_oversized_deployment_does_not_close_the_node_for_other_pods(
    cp: ControlPlane, product: Product, namespace: str, refusing: BrokenNode
) -> None:
    here = Watcher(cp, namespace)
    here.create(controlled("Deployment", "pair", replicas=1, limits={GPU: "2"}, **HERE))
    said = f"1 node(s) whose device plugin refuses more than 1 {GPU} in one container"
    failed = refuse_until_told(here, refusing, ONE_IS_THE_MOST, said)
    here.create(pod("single", limits={GPU: "1"}, **HERE))
    bound(here, "single")
    here.wait_told(failed[0], "NodeAvoided")
    told: list[Any] = [one["note"] for one in here.events(failed[0])]
    assert any("request 1 in each container" in note for note in told)
