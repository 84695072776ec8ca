"""MIG fallback on the real API server: seed 000's cluster, promises, priorities, schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.answered import AnsweredWatcher
from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra_objects import kube_scheduler
from tests.controlplane.webhook_calls import admitted_without_answer
from tests.controlplane.workloads import (
    Json,
    Watcher,
    annotation,
    away,
    controlled,
    fetch,
    job,
    node_of,
    pod,
    tier,
    why,
)
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

FALLBACK = "gpu-webhook.k8s.io/fallback"
ORIGINAL = "adapter.gpu.turbonomic.ibm.com/original"
BIG = "nvidia.com/mig-2g.20gb"
SMALL = "nvidia.com/mig-1g.10gb"


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Scheduler and webhook in scope ``all``, as in seed 000."""
    with Product(cp, tmp_path_factory.mktemp("product"), scope="all") as running:
        yield running


@pytest.fixture
def seed_nodes(kwok_node: MakeNode) -> None:
    """Seed 000: 28 x 1g.10gb, and 12 x 2g.20gb with 4 x 1g.10gb."""
    kwok_node("small", mig={"1g.10gb": 28}, labels={"node-pool": "small"})
    kwok_node("medium", mig={"2g.20gb": 12, "1g.10gb": 4}, labels={"node-pool": "medium"})


@pytest.fixture
def here(cp: ControlPlane, product: Product, namespace: str, seed_nodes: None) -> Watcher:
    """A fresh namespace in seed 000's cluster."""
    assert product.is_running("webhook")
    return AnsweredWatcher(cp, namespace, product)


def wants_big(name: str, **more: Any) -> Json:
    return pod(name, limits={BIG: "1"}, **more)


def count(items: list[Json], resource: str, *, bound: bool | None = None) -> int:
    """Pods that request a resource; only (un)bound ones if asked."""
    return sum(
        1
        for item in items
        if tier(item) == {resource: "1"} and (bound is None or bool(node_of(item)) is bound)
    )


def create_all(here: Watcher, bodies: list[Json]) -> None:
    """Create at once, from many clients."""
    with ThreadPoolExecutor(max_workers=16) as pool:
        list(pool.map(here.create, bodies))


@pytest.mark.smoke
@pytest.mark.contract("S0-3", "S0-20", "S0-21", "S0-22", "S0-24", "S0-B1", "S0-B2")
def test_twelve_keep_their_tier_32_degrade_and_the_rest_waits(
    here: Watcher, product: Product
) -> None:
    """In order, one by one; then one ends and a waiting pod starts by itself."""
    for number in range(46):
        here.create(wants_big(f"p{number:02}"))
    items = here.wait_bound(44)

    kept, degraded, waiting = items[:12], items[12:44], items[44:]
    assert [tier(item) for item in kept] == [{BIG: "1"}] * 12
    assert [node_of(item) for item in kept] == ["medium"] * 12
    assert [annotation(item, FALLBACK) for item in kept] == [None] * 12
    assert [tier(item) for item in degraded] == [{SMALL: "1"}] * 32
    assert {annotation(item, FALLBACK) for item in degraded} == {"2g.20gb->1g.10gb"}
    assert {item["spec"]["containers"][0]["resources"]["limits"][SMALL] for item in degraded} == {
        "1"
    }
    assert {bool(annotation(item, ORIGINAL)) for item in degraded} == {True}
    here.wait_explained("p45", "Insufficient nvidia.com/mig-2g.20gb (need 1; best node has 0 free)")
    assert [node_of(item) for item in waiting] == ["", ""]

    here.client.delete(here.path("Pod", "p03"))

    here.wait(
        "a waiting pod to start",
        lambda found: any(
            item["metadata"]["name"] in ("p44", "p45") and node_of(item) for item in found
        ),
    )
    lines = product.log("webhook")
    for line in (
        f"Reviewing pod: {here.namespace}/p12",
        f"Pod {here.namespace}/p12 requests 2g.20gb MIG",
        f"2g.20gb not available, falling back to 1g.10gb for pod {here.namespace}/p12",
        f"Applied fallback patch to pod {here.namespace}/p12",
    ):
        assert line in lines


@pytest.mark.contract("S0-15", "S0-19", "S0-B3")
def test_two_hundred_concurrent_pods_reserve_no_slice_twice(
    here: Watcher, product: Product
) -> None:
    """Deployment, StatefulSet and Job together; none lost, none unexplained."""
    bodies = [
        controlled("Deployment", "deploy", replicas=90, limits={BIG: "1"}),
        controlled("StatefulSet", "set", replicas=80, limits={BIG: "1"}),
        job(
            "batch",
            completions=30,
            limits={BIG: "1"},
            annotations={"gpu-scheduler.io/demo-runs": "forever"},
        ),
    ]
    create_all(here, bodies)

    items = here.wait(
        "200 pods, each placed or explained",
        lambda found: (
            len(found) >= 200
            and all(node_of(i) or why(i) or ended(i) for i in found)
            # A pod may be told a reason before it gets the slice that was reserved for it.
            and count(found, SMALL, bound=False) == 0
        ),
        timeout_s=180,
    )

    running = [item for item in items if not ended(item)]
    assert count(running, BIG, bound=True) <= 12
    assert count(running, SMALL, bound=True) <= 32
    # Every degraded pod was promised a slice that is really there: none of them waits.
    assert count(running, SMALL, bound=False) == 0
    assert "gpu_scheduler_over_committed_devices 0.0" in fetch(product.health_port, "/metrics")


def ended(item: Json) -> bool:
    return item["status"].get("phase") in ("Succeeded", "Failed")


@pytest.mark.contract("S0-18", "S0-24")
def test_with_kube_scheduler_at_most_twelve_pods_keep_their_tier(
    here: Watcher, cp: ControlPlane, product: Product
) -> None:
    wait_until(lambda: knows_the_nodes(product), what="the scheduler to have both nodes")
    with kube_scheduler(cp):
        create_all(
            here,
            [
                controlled(
                    "Deployment",
                    f"d{number}",
                    replicas=10,
                    limits={BIG: "1"},
                    scheduler="default-scheduler",
                )
                for number in range(5)
            ],
        )
        items = here.wait(
            "50 pods, each placed or explained",
            lambda found: len(found) == 50 and is_settled(here, product, found),
            timeout_s=180,
        )

    assert {
        "kept": count(items, BIG, bound=True),
        "degraded": count(items, SMALL, bound=True),
        "waiting": count(items, BIG, bound=False),
    } == {"kept": 12, "degraded": 32, "waiting": 6}


def knows_the_nodes(product: Product) -> bool:
    """Whether the scheduler has the free devices of seed 000's nodes."""
    page = fetch(product.health_port, "/metrics")
    free = [line for line in page.splitlines() if line.startswith("gpu_scheduler_devices{")]
    return sum(float(line.split()[-1]) for line in free if 'state="free"' in line) == 44


def is_settled(here: Watcher, product: Product, found: list[Json]) -> bool:
    """Whether kube-scheduler has an answer for each pod, and the webhook had one for each.

    The webhook admits a pod unchanged if the scheduler does not answer within a second, and
    kube-scheduler's pods are not asked about again. Such pods are deleted as a user would do, and
    their controllers replace them.
    """
    waiting = [item for item in found if not node_of(item)]
    if not all(map(why, waiting)) or count(waiting, SMALL):
        return False
    was_silent = admitted_without_answer(here.plane, here.namespace) or (
        "no answer from the scheduler" in product.log("webhook")
    )
    if len(waiting) == 6 or not was_silent:
        return True
    for item in waiting:
        here.client.delete_if_there(here.path("Pod", item["metadata"]["name"]))
    return False


@pytest.mark.contract("S0-B5")
def test_twelve_unplaceable_pods_degrade_no_other_pod(here: Watcher) -> None:
    for number in range(12):
        here.create(wants_big(f"lost{number}", nodeSelector={"node-pool": "none"}))
    here.wait_explained("lost11", "didn't match Pod's node affinity/selector")

    here.create(wants_big("fine"))

    (item,) = [i for i in here.wait_bound(1) if node_of(i)]
    assert (item["metadata"]["name"], tier(item)) == ("fine", {BIG: "1"})


def test_equal_priority_pod_takes_a_lower_tier_behind_waiting_pods(
    here: Watcher,
) -> None:
    off = {"gpu-scheduler.io/mig-fallback": "off"}
    for number in range(14):
        here.create(wants_big(f"first{number:02}", annotations=off))
    here.wait_bound(12)
    here.wait_explained("first13", "Insufficient nvidia.com/mig-2g.20gb")

    here.create(wants_big("later"))

    assert tier(here.client.get(here.path("Pod", "later"))) == {SMALL: "1"}


def test_dry_run_gets_the_same_answer_and_reserves_nothing(here: Watcher, product: Product) -> None:
    for number in range(20):
        answer = here.client.create(f"{here.pods_path}?dryRun=All", wants_big(f"dry{number}"))
        assert tier(answer) == {BIG: "1"}

    assert here.pods() == []


@pytest.mark.contract("S0-26")
def test_ladder_ending_in_fail_denies_the_pod_when_nothing_is_free(
    here: Watcher,
) -> None:
    strict = {"gpu-scheduler.io/mig-fallback": "2g.20gb->fail"}
    for number in range(12):
        here.create(wants_big(f"s{number:02}", annotations=strict))
    here.wait_bound(12)

    with pytest.raises(Exception, match=r"2g\.20gb is free"):
        here.create(wants_big("s12", annotations=strict))


@pytest.mark.contract("S0-B9")
def test_a_pod_may_opt_out_of_fallback(here: Watcher) -> None:
    for number in range(12):
        here.create(wants_big(f"full{number:02}"))
    here.wait_bound(12)

    here.create(wants_big("mine", annotations={"gpu-scheduler.io/mig-fallback": "off"}))

    stored = here.wait_explained("mine", "Insufficient nvidia.com/mig-2g.20gb")
    assert tier(stored) == {BIG: "1"}


@pytest.mark.contract("S0-B4")
def test_webhook_admits_pods_unchanged_while_the_scheduler_is_down(
    here: Watcher, product: Product, tmp_path: Path
) -> None:
    with away(product, "scheduler"):
        Watcher(here.plane, here.namespace).create(wants_big("unasked"))
        stored = here.client.get(here.path("Pod", "unasked"))

    assert tier(stored) == {BIG: "1"}
    here.wait_bound(1)
