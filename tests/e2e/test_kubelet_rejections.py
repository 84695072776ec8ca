"""A real kubelet refuses pods for minutes: four of them per window, and no other pod is affected.

The window is 20 s instead of 10 min, and every pause is a thirtieth of its default.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.agent import GPU, wait_allocatable
from tests.e2e.containers import Json, delete, run, shell_pod
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product
from tools.realnode import RealNode

PROGRAM: Final = Path(__file__).parent / "refusing_plugin.py"
NAME: Final = "refusingplugin"
SCALE: Final = 30
WINDOW_S: Final = 600.0 / SCALE
WATCHED_S: Final = 3 * WINDOW_S
MOST: Final = 4
#: A slow machine runs no fewer of them, it takes longer.
SINGLES: Final = 4
TIMINGS: Final = {
    "windowS": WINDOW_S,
    "pauseFirstS": 30.0 / SCALE,
    "pauseMaxS": 1800.0 / SCALE,
    "calmS": 3600.0 / SCALE,
}
Plugin = Callable[[int, int, int], AbstractContextManager[None]]
log = logging.getLogger(__name__)


@pytest.fixture
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The scheduler alone, with short windows."""
    config = {"avoidance": TIMINGS}
    running = Product(cp, tmp_path_factory.mktemp("product"), config=config)
    running.start(webhook=False)
    yield running
    running.close()


@pytest.fixture
def plugin(cp: ControlPlane, node: RealNode) -> Plugin:
    """Runs a device plugin on the node: GPUs, how many of them are broken, and the most for one."""

    @contextmanager
    def running(gpus: int, broken: int, most: int) -> Iterator[None]:
        words = [str(PROGRAM), *map(str, (gpus, broken, most))]
        node.run(NAME, [sys.executable, *words])
        try:
            wait_allocatable(cp, node, gpu=gpus)
            yield
        finally:
            node.end(NAME)
            wait_allocatable(cp, node, gpu=0)

    return running


def deployment(name: str, node: RealNode, *, replicas: int, gpus: int) -> Json:
    """Pods that want GPUs of this node."""
    labels = {"app": name}
    template = shell_pod(
        "ignored",
        limits={GPU: str(gpus)},
        labels=labels,
        schedulerName="gpu-scheduler",
        restartPolicy="Always",
        nodeSelector={"kubernetes.io/hostname": node.name},
    )
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def failed(cp: ControlPlane, namespace: str) -> list[Json]:
    """Pods that the kubelet refused, in their order."""
    items = cp.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    refused = [one for one in items if one["status"].get("phase") == "Failed"]
    return sorted(refused, key=lambda one: str(one["status"]["startTime"]))


def most_in_a_window(pods: list[Json]) -> int:
    """The most that failed in any window."""
    times = [datetime.fromisoformat(one["status"]["startTime"]).timestamp() for one in pods]
    return max((sum(at <= one < at + WINDOW_S for one in times) for at in times), default=0)


def test_broken_gpu_fails_at_most_four_pods_per_window(
    cp: ControlPlane, node: RealNode, product: Product, plugin: Plugin, namespace: str
) -> None:
    """The second replica has nowhere else to go; in the middle of it all the scheduler restarts."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    with plugin(2, 1, 2):
        cp.client.create(path, deployment("train", node, replicas=2, gpus=1))
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > WATCHED_S / 2, what="half of the time")
        product.stop("scheduler")
        product.start_scheduler()
        wait_until(
            lambda: time.monotonic() - began > WATCHED_S, what="the rest", timeout_s=WATCHED_S
        )
        cp.client.delete(f"{path}/train?propagationPolicy=Orphan")
        seen = failed(cp, namespace)
        running = cp.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]

    log.info("refused in %.0f s: %s", WATCHED_S, [one["status"]["startTime"] for one in seen])
    assert {one["status"]["reason"] for one in seen} == {"UnexpectedAdmissionError"}
    assert "GPU is lost" in seen[0]["status"]["message"]
    assert len(seen) >= 3, "a slow machine needs more than one window for the three that it takes"
    assert most_in_a_window(seen) <= MOST
    assert sum(one["status"]["phase"] == "Running" for one in running) == 1


def test_oversized_deployment_does_not_close_the_node(
    cp: ControlPlane, node: RealNode, product: Product, plugin: Plugin, namespace: str
) -> None:
    """The plugin gives one GPU per container; pods that request one always run at once."""
    assert product.is_running("scheduler")
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    with plugin(8, 0, 1):
        cp.client.create(path, deployment("pair", node, replicas=2, gpus=2))
        began, longest_s, number = time.monotonic(), 0.0, 0
        while time.monotonic() - began < 2 * WINDOW_S or number < SINGLES:
            number += 1
            single = shell_pod(f"single-{number}", limits={GPU: "1"}, schedulerName="gpu-scheduler")
            since = time.monotonic()
            run(cp, namespace, single)
            longest_s = max(longest_s, time.monotonic() - since)
            delete(cp, namespace, f"single-{number}")
        cp.client.delete(f"{path}/pair?propagationPolicy=Orphan")
        seen = failed(cp, namespace)

    log.info("%d pods were refused; of %d others none waited %.1f s", len(seen), number, longest_s)
    assert "maximum request size for shared resources is 1" in seen[0]["status"]["message"]
    assert 1 <= most_in_a_window(seen) <= MOST
