"""Tiers under conditions on the real API server: quotas, LimitRanges, nodes, floors, memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.answered import AnsweredWatcher
from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra_objects import kube_scheduler
from tests.controlplane.workloads import (
    Json,
    Watcher,
    annotation,
    controlled,
    fetch,
    node_of,
    pod,
    tier,
    why,
)
from tools.controlplane import ApiError, ControlPlane, wait_until
from tools.product import Product

BIG = "nvidia.com/mig-2g.20gb"
BIG_MEMORY = "nvidia.com/mig-1g.20gb"
SMALL = "nvidia.com/mig-1g.10gb"
GPU = "nvidia.com/gpu"
LADDER = "gpu-scheduler.io/mig-fallback"
FLOOR = "gpu-scheduler.io/memory-floor"
MEMORY = "gpu-scheduler.io/gpu-memory"
GIVEN = "gpu-scheduler.io/gpu-memory-given"


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Scheduler and webhook for pods of every scheduler."""
    with Product(cp, tmp_path_factory.mktemp("product"), scope="all") as running:
        yield running


@pytest.fixture
def here(cp: ControlPlane, product: Product, namespace: str) -> Watcher:
    """A fresh namespace; the test makes its nodes."""
    assert product.is_running("webhook")
    return AnsweredWatcher(cp, namespace, product)


def wants(name: str, resource: str = BIG, **more: Any) -> Json:
    return pod(name, limits={resource: "1"}, **more)


def settled(here: Watcher, *bodies: Json) -> list[Json]:
    """Create these pods one after another; all of them are bound in the end."""
    for number, body in enumerate(bodies, 1):
        here.create(body)
        here.wait_bound(number)
    return here.pods()


def limit(here: Watcher, name: str, **hard: int) -> None:
    """A ResourceQuota that the API server applies already; our scheduler sees it with a delay."""
    known = {"big": f"requests.{BIG}", "small": f"requests.{SMALL}"}
    path = f"/api/v1/namespaces/{here.namespace}/resourcequotas"
    wanted = {known[word]: str(count) for word, count in hard.items()}
    here.client.create(path, {"metadata": {"name": name}, "spec": {"hard": wanted}})
    here.client.wait_for(
        f"{path}/{name}",
        lambda seen: seen is not None and seen["status"].get("hard") == wanted,
        what=f"the quota {name} to be counted",
    )


def asked(here: Watcher, body: Json) -> dict[str, str]:
    """The tier that a pod would have if it were created now."""
    answer: Json = here.client.create(f"{here.pods_path}?dryRun=All", body)
    return tier(answer)


def test_lower_tier_with_a_full_quota_is_skipped_until_it_has_room(
    here: Watcher, kwok_node: MakeNode, product: Product
) -> None:
    kwok_node("n", mig={"1g.10gb": 5})
    limit(here, "gpus", small=1)

    here.create(wants("first"))
    here.wait_bound(1)
    # The quota's new count comes to the scheduler by a watch of its own.
    wait_until(lambda: asked(here, wants("probe")) == {BIG: "1"}, what="the quota to be seen full")
    here.create(wants("second"))

    stored = here.wait_explained("second", "Insufficient nvidia.com/mig-2g.20gb")
    assert (tier(stored), node_of(stored)) == ({BIG: "1"}, "")
    metrics = fetch(product.health_port, "/metrics")
    assert 'gpu_scheduler_admission_tiers_total{result="quota_exceeded",tier="1g.10gb"}' in metrics

    here.client.delete(here.path("Pod", "first"))
    wait_until(lambda: asked(here, wants("p")) == {SMALL: "1"}, what="room in the quota again")


def test_full_quota_of_the_requested_tier_refuses_the_pod(
    here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("n", mig={"2g.20gb": 5, "1g.10gb": 5})
    limit(here, "gpus", big=1)
    [first] = settled(here, wants("first"))

    with pytest.raises(ApiError, match=r"exceeded quota: gpus.*2g\.20gb=1") as refused:
        here.create(wants("second"))

    assert refused.value.status == 403
    assert tier(first) == {BIG: "1"}


def test_deployment_under_a_quota_gets_exactly_the_quota(
    here: Watcher, kwok_node: MakeNode
) -> None:
    """Created all at once by the real controller; none of its pods is refused by the API server."""
    kwok_node("n", mig={"1g.10gb": 9})
    limit(here, "gpus", small=3)

    here.create(controlled("Deployment", "web", replicas=6, limits={BIG: "1"}))
    items = here.wait(
        "six pods, three of them placed and the others explained",
        lambda found: (
            len(found) == 6
            and all(node_of(i) or why(i) for i in found)
            and sum(bool(node_of(i)) for i in found) == 3
        ),
    )

    kinds = sorted(next(iter(tier(item))) for item in items)
    assert kinds == [SMALL] * 3 + [BIG] * 3
    assert {str(tier(item)) for item in items if node_of(item)} == {str({SMALL: "1"})}


@pytest.mark.contract("S2-B10", "S0-B7")
def test_limit_range_default_is_not_counted_twice(
    here: Watcher, kwok_node: MakeNode, product: Product
) -> None:
    """The API server runs LimitRanger and the webhook twice; the pod has one slice and one
    reservation.
    """
    kwok_node("n", mig={"1g.10gb": 1})
    limits = {"type": "Container", "default": {BIG: "1"}, "defaultRequest": {BIG: "1"}}
    here.client.create(
        f"/api/v1/namespaces/{here.namespace}/limitranges",
        {"metadata": {"name": "slices"}, "spec": {"limits": [limits]}},
    )
    wait_until(lambda: asked(here, pod("probe")) == {SMALL: "1"}, what="LimitRanger's default")
    before = product.log("webhook").count(f"Reviewing pod: {here.namespace}/plain")

    [stored] = settled(here, pod("plain"))

    assert tier(stored) == {SMALL: "1"}
    assert stored["spec"]["containers"][0]["resources"]["limits"] == {SMALL: "1"}
    assert annotation(stored, "gpu-webhook.k8s.io/fallback") == "2g.20gb->1g.10gb"
    record = json.loads(annotation(stored, "adapter.gpu.turbonomic.ibm.com/original") or "")
    assert record == {"app": {"limits": {BIG: "1"}, "requests": {BIG: "1"}}}
    reviews = product.log("webhook").count(f"Reviewing pod: {here.namespace}/plain")
    assert reviews - before == 2


@pytest.mark.contract("S3-1", "S3-16")
def test_a_ladder_may_go_up_to_a_larger_slice(here: Watcher, kwok_node: MakeNode) -> None:
    """Seed 003's direction, at admission and without a killed pod."""
    kwok_node("n", mig={"2g.20gb": 1, "3g.40gb": 1})
    up = {LADDER: "1g.10gb->2g.20gb->3g.40gb"}

    bodies = [wants(f"p{number}", SMALL, annotations=up) for number in range(2)]
    first, second = settled(here, *bodies)

    assert tier(first) == {BIG: "1"}
    assert tier(second) == {"nvidia.com/mig-3g.40gb": "1"}


def test_tier_with_labels_restricts_nodes_for_every_scheduler(
    here: Watcher, cp: ControlPlane, kwok_node: MakeNode
) -> None:
    """The other node has more room, and the real kube-scheduler would have spread to it."""
    kwok_node("roomy", mig={"1g.10gb": 9}, labels={"gpu-type": "h100"})
    kwok_node("meant", mig={"1g.10gb": 2}, labels={"gpu-type": "a100"})
    only = {LADDER: "2g.20gb->1g.10gb[gpu-type=a100]"}

    [ours] = settled(here, wants("ours", annotations=only))
    with kube_scheduler(cp):
        here.create(wants("theirs", annotations=only, scheduler="default-scheduler"))
        theirs = here.wait_bound(2)[1]
    here.create(wants("third", annotations=only))

    for item in (ours, theirs):
        assert (tier(item), node_of(item)) == ({SMALL: "1"}, "meant")
        assert item["spec"]["nodeSelector"] == {"gpu-type": "a100"}
        assert annotation(item, "gpu-scheduler.io/tier-nodes") == "gpu-type=a100"
    third = here.wait_explained("third", "Insufficient nvidia.com/mig-2g.20gb")
    assert tier(third) == {BIG: "1"}
    assert "nodeSelector" not in third["spec"]


@pytest.mark.contract("S3-B8")
def test_memory_is_kept_before_compute_and_never_below_the_floor(
    here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("n", mig={"1g.20gb": 1, "1g.10gb": 9})
    floor = {FLOOR: "16Gi"}

    [first] = settled(here, wants("first", annotations=floor))
    here.create(wants("second", annotations=floor))
    second = here.wait_explained("second", "Insufficient nvidia.com/mig-2g.20gb")

    assert (tier(first), tier(second)) == ({BIG_MEMORY: "1"}, {BIG: "1"})
    with pytest.raises(ApiError, match="memory-floor: 'lots' is not an amount"):
        here.create(wants("bad", annotations={FLOOR: "lots"}))


@pytest.mark.contract("S3-B8")
def test_memory_request_gets_the_smallest_free_device(here: Watcher, kwok_node: MakeNode) -> None:
    """Smallest memory, then least compute, then a whole GPU that is large enough."""
    labels = {"nvidia.com/gpu.memory": "81559"}
    kwok_node("cut", mig={"1g.10gb": 5, "1g.20gb": 1, "2g.20gb": 1})
    kwok_node("old", gpus=2, labels={"nvidia.com/gpu.memory": "11441"})
    kwok_node("card", gpus=1, labels=labels)

    bodies = [pod(f"p{number}", annotations={MEMORY: "16Gi"}) for number in range(3)]
    items = settled(here, *bodies)
    here.create(pod("p3", annotations={MEMORY: "16Gi"}))
    waiting = here.wait_explained("p3", "Insufficient nvidia.com/mig-1g.20gb")

    assert [tier(item) for item in items] == [{BIG_MEMORY: "1"}, {BIG: "1"}, {GPU: "1"}]
    assert [node_of(item) for item in items] == ["cut", "cut", "card"]
    assert [annotation(item, GIVEN) for item in items] == ["app=1g.20gb", "app=2g.20gb", "app=gpu"]
    assert tier(waiting) == {BIG_MEMORY: "1"}
    for body, line in (
        (wants("both", annotations={MEMORY: "16Gi"}), "the pod also requests .*2g.20gb; keep one"),
        (pod("typo", annotations={MEMORY: "16"}), "16 is 16 bytes"),
    ):
        with pytest.raises(ApiError, match=f"gpu-scheduler.io/gpu-memory: {line}"):
            here.create(body)


def test_unmutated_memory_request_does_not_run_without_a_gpu(
    here: Watcher, kwok_node: MakeNode, product: Product
) -> None:
    kwok_node("n", mig={"1g.10gb": 1})
    try:
        product.unregister()
        wait_until(
            lambda: asked(here, pod("probe", annotations={MEMORY: "5Gi"})) == {},
            what="the webhook to be called no more",
        )
        here.create(pod("blind", annotations={MEMORY: "5Gi"}))
        stored = here.wait_explained("blind", "NotMutated: gpu-scheduler.io/gpu-memory was not")
    finally:
        product.register()

    assert node_of(stored) == ""
