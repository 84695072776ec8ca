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
LABELS = {
    "gpu-scheduler.io/mig-dynamic": "true",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "1",
}


@pytest.fixture
def gpu(
    cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode
) -> Iterator[Watcher]:
    """A node with one dynamic-MIG GPU."""
    assert product.is_running("scheduler")
    kwok_node("halves", labels=LABELS | {"here": namespace})
    watcher = Watcher(cp, namespace)
    try:
        with CutOperator(cp.client):
            yield watcher
    finally:
        cp.client.delete_if_there(f"{CUTS}/halves")


@pytest.fixture
def here(gpu: Watcher) -> Watcher:
    """The GPU's free half does not fit the waiting pod: both halves are taken, then the one is
    given back that a larger instance cannot begin at.
    """
    use(gpu, "Deployment", "first", "3g.40gb@0/4")
    use(gpu, "Deployment", "second", "3g.40gb@0/0")
    gpu.client.delete(gpu.path("Deployment", "first"))
    gpu.wait("half a GPU to be free", lambda items: len(items) == 1)
    return gpu


def use(watcher: Watcher, kind: str, name: str, place: str) -> None:
    """A pod of a controller gets this instance."""
    limits = {f"nvidia.com/mig-{place.partition('@')[0]}": "1"}
    watcher.create(controlled(kind, name, replicas=1, limits=limits, **near(watcher)))
    watcher.wait(f"{name} at {place}", lambda items: place in held(items))


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


def protect(watcher: Watcher, name: str) -> str:
    """A budget that allows no eviction of this workload's pod; returns its path."""
    path = f"/apis/policy/v1/namespaces/{watcher.namespace}/poddisruptionbudgets"
    rule = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
    watcher.client.create(path, {"metadata": {"name": "one"}, "spec": rule})
    watcher.client.wait_for(
        f"{path}/one",
        lambda seen: seen["status"].get("currentHealthy") == 1,
        what="the budget to know its pods",
    )
    return f"{path}/one"


def test_defrag_evicts_only_after_confirmation_and_within_budgets(
    here: Watcher, cp: ControlPlane, product: Product
) -> None:
    budget = protect(here, "second")
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

    here.client.delete(budget)
    done = defrag(here, cp, product, "--execute", stdin="y\n")

    assert done.status == 0, done
    items = here.wait_bound(2)
    assert sorted(held(items)) == ["3g.40gb@0/4", "4g.40gb@0/0"]
    assert uids(of(items, "second")) != uids(before)


@pytest.fixture
def in_the_way(gpu: Watcher) -> Watcher:
    """A 2g and a 1g on the only half of the GPU at which the 3g can begin after two moves."""
    use(gpu, "Deployment", "two", "2g.20gb@0/4")
    use(gpu, "StatefulSet", "one", "1g.10gb@0/6")
    use(gpu, "Deployment", "rest", "1g.10gb@0/3")
    gpu.create(pod("big", limits={"nvidia.com/mig-3g.40gb": "1"}, **near(gpu)))
    gpu.wait_explained("big", "Insufficient nvidia.com/mig-3g.40gb")
    return gpu


MOVED = ["1g.10gb@0/2", "1g.10gb@0/3", "2g.20gb@0/0", "3g.40gb@0/4"]


def test_second_pod_is_evicted_when_the_first_one_has_another_place(
    in_the_way: Watcher, cp: ControlPlane, product: Product
) -> None:
    """A pod of a StatefulSet, which is recreated after it ended, and one of a Deployment."""
    stays = uids(of(in_the_way.pods(), "rest"))

    done = defrag(in_the_way, cp, product, "--execute", "--yes")

    assert done.status == 0, done
    assert "after 2 restarts" in done.out
    items = in_the_way.wait_bound(4)
    assert sorted(held(items)) == MOVED
    assert uids(of(items, "rest")) == stays


def test_plan_that_stops_after_the_first_restart_is_continued_later(
    in_the_way: Watcher, cp: ControlPlane, product: Product
) -> None:
    budget = protect(in_the_way, "two")

    stopped = defrag(in_the_way, cp, product, "--execute", "--yes")

    assert stopped.status == 1, stopped
    assert "disruption budget" in stopped.err
    assert "1 of 2 were" in stopped.err
    items = in_the_way.wait_bound(3)
    assert sorted(held(of(items, "one") + of(items, "two"))) == ["1g.10gb@0/2", "2g.20gb@0/4"]

    in_the_way.client.delete(budget)
    rest = defrag(in_the_way, cp, product, "--execute", "--yes")

    assert rest.status == 0, rest
    assert "after 1 restart:" in rest.out
    assert sorted(held(in_the_way.wait_bound(4))) == MOVED
