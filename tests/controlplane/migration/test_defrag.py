"""``gpuctl defrag --execute`` on the real API server: a confirmed step, past no budget."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.migration_scene import near, of, uids
from tests.controlplane.partition_operator import CUTS, CutOperator
from tests.controlplane.workloads import Json, Watcher, annotation, controlled, pod
from tests.unit.gpuctl.cli import CommandOutput, gpuctl
from tools.controlplane import ControlPlane
from tools.product import Product

DEVICES = "gpu-scheduler.io/devices"
HALF = {"nvidia.com/mig-3g.40gb": "1"}
LABELS = {
    "gpu-scheduler.io/mig-dynamic": "true",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "1",
}


@pytest.fixture
def here(
    cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode
) -> Iterator[Watcher]:
    """One dynamic-MIG GPU whose free half does not fit the waiting pod."""
    assert product.is_running("scheduler")
    kwok_node("halves", labels=LABELS | {"here": namespace})
    watcher = Watcher(cp, namespace)
    try:
        with CutOperator(cp.client):
            use_half(watcher)
            yield watcher
    finally:
        cp.client.delete_if_there(f"{CUTS}/halves")


def use_half(watcher: Watcher) -> None:
    """Both halves are taken, then the one is given back that a larger instance cannot begin at."""
    for name, place in (("first", "3g.40gb@0/4"), ("second", "3g.40gb@0/0")):
        body = controlled("Deployment", name, replicas=1, limits=HALF, **near(watcher))
        watcher.create(body)
        watcher.wait(f"{name} at {place}", lambda items, at=place: at in held(items))
    watcher.client.delete(watcher.path("Deployment", "first"))
    watcher.wait("half a GPU to be free", lambda items: len(items) == 1)


def held(items: list[Json]) -> list[str]:
    """What the pods have, with its place."""
    return [str(annotation(item, DEVICES)) for item in items]


def defrag(
    here: Watcher, cp: ControlPlane, product: Product, *options: str, stdin: str = ""
) -> CommandOutput:
    """As a person with every right."""
    server = f"http://127.0.0.1:{product.decisions_port}"
    words = ("--kubeconfig", str(cp.kubeconfig), "--server", server, *options)
    return gpuctl("defrag", f"{here.namespace}/big", *words, stdin=stdin)


def test_defrag_evicts_only_after_confirmation_and_within_budgets(
    here: Watcher, cp: ControlPlane, product: Product
) -> None:
    path = f"/apis/policy/v1/namespaces/{here.namespace}/poddisruptionbudgets"
    rule = {"minAvailable": 1, "selector": {"matchLabels": {"app": "second"}}}
    here.client.create(path, {"metadata": {"name": "one"}, "spec": rule})
    here.client.wait_for(
        f"{path}/one",
        lambda seen: seen["status"].get("currentHealthy") == 1,
        what="the budget to know its pods",
    )
    here.create(pod("big", limits={"nvidia.com/mig-4g.40gb": "1"}, **near(here)))
    here.wait_explained("big", "Insufficient nvidia.com/mig-4g.40gb")
    before = of(here.pods(), "second")

    planned = defrag(here, cp, product)
    declined = defrag(here, cp, product, "--execute", stdin="n\n")
    refused = defrag(here, cp, product, "--execute", "--yes")

    assert planned.status == 0, planned
    assert before[0]["metadata"]["name"] in planned.out
    assert (declined.status, "no pod was evicted" in declined.err) == (1, True)
    assert (refused.status, "disruption budget" in refused.err) == (1, True)
    assert uids(of(here.pods(), "second")) == uids(before)

    here.client.delete(f"{path}/one")
    done = defrag(here, cp, product, "--execute", stdin="y\n")

    assert done.status == 0, done
    items = here.wait_bound(2)
    assert sorted(held(items)) == ["3g.40gb@0/4", "4g.40gb@0/0"]
    assert uids(of(items, "second")) != uids(before)
