"""A kubelet that refuses our pods again and again, as the API server shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.broken_node import GPU, BrokenNode, broken_node
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Watcher, fetch, node_of, pod
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

NODE = "broken"


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The scheduler; no webhook is needed."""
    running = Product(cp, tmp_path_factory.mktemp("product"))
    running.start(webhook=False)
    yield running
    running.close()


@pytest.fixture
def broken(cp: ControlPlane) -> Iterator[BrokenNode]:
    """A node without KWOK: the test plays its kubelet."""
    with broken_node(cp, NODE) as node:
        yield node


def test_node_rejecting_three_pods_is_avoided_and_returns(
    cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode, broken: BrokenNode
) -> None:
    kwok_node("good", gpus=8)
    here = Watcher(cp, namespace)
    for number in range(3):
        name = f"p{number}"
        here.create(pod(name, limits={GPU: "1"}))
        [*_, bound] = [item for item in here.wait_bound(number + 1) if name_of(item) == name]
        assert node_of(bound) == NODE, "the smaller node fits best"
        broken.refuse(bound, f"OutOf{GPU}", "no device is healthy")

    wait_until(
        lambda: "gpu_scheduler_avoided_nodes 1.0" in fetch(product.health_port, "/metrics"),
        what="the node to rest",
    )
    here.create(pod("p3", limits={GPU: "1"}))
    assert [node_of(item) for item in here.wait_bound(4) if name_of(item) == "p3"] == ["good"]
    here.create(pod("stuck", limits={GPU: "2"}, nodeSelector={"kubernetes.io/hostname": NODE}))
    here.wait_explained("stuck", "1 node(s) were avoided after they rejected pods like this one")
    page = fetch(product.health_port, "/metrics")
    assert "gpu_scheduler_avoided_nodes 1.0" in page
    assert 'gpu_scheduler_pods_rejected_by_nodes_total{reason="OutOf"} 3.0' in page
    here.wait_told("p2", "NodeAvoided")
    broken.beat()

    here.wait_bound(5, timeout_s=180)
    wait_until(
        lambda: "gpu_scheduler_avoided_nodes 0.0" in fetch(product.health_port, "/metrics"),
        what="no node to rest",
    )


def name_of(item: dict[str, Any]) -> str:
    """A pod's name."""
    return str(item["metadata"]["name"])
