"""Victims on a dynamic MIG node are chosen by their slices, with an operator that answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.partition_operator import CUTS, CutOperator
from tests.controlplane.preemption_scene import names
from tests.controlplane.workloads import Json, Watcher, annotation, node_of, pod
from tools.controlplane import ControlPlane
from tools.product import Product

LABELS = {
    "gpu-scheduler.io/mig-dynamic": "true",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "1",
}


@pytest.fixture
def here(cp: ControlPlane, product: Product, namespace: str) -> Iterator[Watcher]:
    """A fresh namespace beside an operator of MIG instances."""
    assert product.is_running("scheduler")
    try:
        with CutOperator(cp.client):
            yield Watcher(cp, namespace)
    finally:
        cp.client.delete(CUTS)


def wants(name: str, profile: str, priority: str) -> Json:
    return pod(name, limits={f"nvidia.com/mig-{profile}": "1"}, priorityClassName=priority)


def test_the_pod_on_the_needed_slices_goes_however_important(
    here: Watcher, kwok_node: MakeNode
) -> None:
    """A 4g.40gb fits only at slice 0, which the more important pod holds."""
    kwok_node("pre-cut", labels=LABELS)
    here.create(wants("front", "4g.40gb", "gpu-high"))
    here.wait_bound(1)
    here.create(wants("back", "3g.40gb", "gpu-normal"))
    here.wait_bound(2)

    here.create(wants("boss", "4g.40gb", "gpu-critical"))

    here.wait_told("front", "Preempted")
    here.wait("the preemptor", lambda items: len(items) == 2 and all(map(node_of, items)))
    assert names(here) == {"back", "boss"}
    boss = here.client.get(here.path("Pod", "boss"))
    assert annotation(boss, well_known.DEVICES) == "4g.40gb@0/0"
