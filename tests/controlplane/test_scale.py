"""Hundreds of pods that fit nowhere, on the real API server: the small form of bench/pending."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Json, Watcher, fetch, node_of, pod, why
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

TIER = "nvidia.com/mig-2g.20gb"
PODS = 400
#: Much less than the figure of the benchmark: here the whole test suite may be running.
IDLE_SHARE_MAX = 0.25
IDLE_S = 4.0


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The scheduler; no webhook is needed."""
    running = Product(cp, tmp_path_factory.mktemp("product"))
    running.start(webhook=False)
    yield running
    running.close()


def decisions(product: Product) -> int:
    """How many decisions were made so far."""
    page = fetch(product.health_port, "/metrics")
    [count] = re.findall(
        r"^gpu_scheduler_scheduling_algorithm_duration_seconds_count (\S+)$", page, re.M
    )
    return round(float(count))


def processor_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def is_explained(items: list[Json]) -> bool:
    waiting = [item for item in items if not node_of(item)]
    return len(waiting) == PODS and all(f"Insufficient {TIER}" in why(item) for item in waiting)


def test_many_waiting_pods_do_not_delay_others(
    cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode
) -> None:
    """Reasons on every pod, a new one bound at once, idle when nothing happens, one try for all."""
    kwok_node("tiers", mig={"2g.20gb": 1})
    kwok_node("gpus", gpus=8)
    here = Watcher(cp, namespace)
    here.create(pod("holder", limits={TIER: "1"}))
    here.wait_bound(1)
    with cp.client.kept() as client:
        for number in range(PODS):
            client.create(here.pods_path, pod(f"w{number}", limits={TIER: "1"}))
    here.wait("a reason on every pod", is_explained)

    before = decisions(product)
    here.create(pod("new", limits={"nvidia.com/gpu": "1"}))
    here.wait_bound(2)
    assert decisions(product) - before <= 10, "none of the others was tried first"

    # What the new pod changed may take a slow machine a moment longer.
    wait_until(lambda: is_idle(product), what="four seconds without a decision")

    before = decisions(product)
    cp.client.delete(f"{here.pods_path}/holder", {"gracePeriodSeconds": 0})
    here.wait("the slice to be given on", lambda items: sum(map(is_bound, items)) == 2)
    assert decisions(product) - before <= 10, "one was tried for all"


def is_idle(product: Product) -> bool:
    """Whether the scheduler decides nothing for four seconds, and hardly uses the processor."""
    before, used = decisions(product), processor_s(product.pids["scheduler"])
    moment = time.monotonic()
    time.sleep(IDLE_S)  # nothing happens, and that is measured
    share = (processor_s(product.pids["scheduler"]) - used) / (time.monotonic() - moment)
    return decisions(product) == before and share < IDLE_SHARE_MAX


def is_bound(item: Json) -> bool:
    """Whether a pod has a node."""
    return bool(node_of(item))
