"""Two replicas behind one Service: only the leader reserves, also for a standby; recreation of
pods that were created while no replica ran."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scheduler.model import well_known
from tests.controlplane.answered import AnsweredWatcher
from tests.controlplane.balancer import Balancer
from tests.controlplane.conftest import MakeNode
from tests.controlplane.replicas import Replicas, leader_of
from tests.controlplane.workloads import (
    Json,
    Watcher,
    annotation,
    controlled,
    cuda,
    fetch,
    job,
    node_of,
    pod,
    tier,
    why,
)
from tools.controlplane import ApiError, ControlPlane, wait_until
from tools.product import ACCOUNT, Product

BIG = "nvidia.com/mig-2g.20gb"
SMALL = "nvidia.com/mig-1g.10gb"
BIG_FREE, SMALL_FREE = 40, 220
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler-system/leases/gpu-scheduler"

MakeReplica = Callable[[str], Product]
#: Shown by `pytest --log-cli-level=info`, as `make nightly` does.
figures = logging.getLogger("figures")


@pytest.fixture(scope="module")
def cp(rough: ControlPlane) -> ControlPlane:
    """A control plane whose whole audit log may be read."""
    return rough


@pytest.fixture
def make_replica(cp: ControlPlane, tmp_path: Path) -> Iterator[MakeReplica]:
    """A function that starts one scheduler with a webhook beside it; they know one token."""
    with Replicas(cp, tmp_path) as replicas:
        yield replicas.make


def metric(replica: Product, line: str) -> float:
    """The value of one series."""
    for text in fetch(replica.health_port, "/metrics").splitlines():
        if text.startswith(line):
            return float(text.rpartition(" ")[2])
    return 0.0


def answered(replica: Product) -> float:
    return metric(replica, 'gpu_scheduler_forwarded_admission_queries_total{result="answered"}')


def many(prefix: str, tens: int) -> list[Json]:
    """Ten times as many pods of three kinds of controllers, each asking for the big slice."""
    return [
        controlled("Deployment", f"{prefix}deploy", replicas=4 * tens, limits={BIG: "1"}),
        controlled("StatefulSet", f"{prefix}set", replicas=4 * tens, limits={BIG: "1"}),
        job(f"{prefix}batch", completions=2 * tens, limits={BIG: "1"}),
    ]


def create_all(here: Watcher, bodies: list[Json]) -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(here.create, bodies))


def promised(items: list[Json], resource: str) -> list[Json]:
    """Pods that got a tier at admission, placed or not."""
    return [
        item
        for item in items
        if tier(item) == {resource: "1"} and annotation(item, well_known.RESERVATION)
    ]


def promises_in(log: Path) -> int:
    """How many tiers a scheduler has degraded in its life."""
    return log.read_text().count("tier degraded")


@pytest.mark.timeout(600)
@pytest.mark.contract("S0-B3", "S2-B12")
def test_leader_kill_during_500_pods_reserves_no_slice_twice(
    cp: ControlPlane, make_replica: MakeReplica, namespace: str, kwok_node: MakeNode
) -> None:
    """A pod with a reservation gets its slice, and every other pod gets a reason."""
    for number in range(2):
        kwok_node(f"big{number}", mig={"2g.20gb": BIG_FREE // 2}, resources={"pods": 500})
        kwok_node(f"small{number}", mig={"1g.10gb": SMALL_FREE // 2}, resources={"pods": 500})
    replicas = [make_replica("one"), make_replica("two")]
    here = Watcher(cp, namespace)
    with Balancer([replica.webhook_port for replica in replicas]) as service:
        replicas[0].register(service.port)
        leader, standby = leader_of(replicas)
        create_all(here, many("a", 25))
        # Some have a reservation already, and more are created.
        here.wait("a hundred pods", lambda items: len(items) >= 100, timeout_s=180)
        leader.kill("scheduler")
        create_all(here, many("b", 5))
        leader.start_scheduler()
        wait_until(lambda: dry_run(here) == {SMALL: "1"}, what="the next leader to answer")
        assert leader_of(replicas)[0] is standby
        create_all(here, many("c", 20))
        items = here.wait(
            "500 pods, each placed or explained",
            lambda found: len(found) == 500 and all(node_of(i) or why(i) for i in found),
            timeout_s=240,
        )
    # A pod may be told a reason before it gets the slice that was reserved for it.
    items = here.wait("every reserved slice to be taken", is_every_slice_taken, timeout_s=240)

    degraded_by = [
        promises_in(leader.directory / "scheduler.former.log"),
        promises_in(standby.directory / "scheduler.log"),
    ]
    figures.info("degraded by %s, connections %s", degraded_by, service.passed)
    assert min(degraded_by) > 0, "both leaders promised something"
    assert min(service.passed.values()) >= 2, service.passed
    assert answered(standby) + answered(leader) > 0, "a standby forwarded a query"
    assert_promises_are_kept(items)


def is_every_slice_taken(items: list[Json]) -> bool:
    """Whether every pod with a reservation has a node, and no big slice is free."""
    reserved = promised(items, BIG) + promised(items, SMALL)
    taken = sum(tier(item) == {BIG: "1"} and bool(node_of(item)) for item in items)
    return all(map(node_of, reserved)) and taken == BIG_FREE


def assert_promises_are_kept(items: list[Json]) -> None:
    """Every slice is reserved once: there are as many reservations as slices."""
    kept, degraded = promised(items, BIG), promised(items, SMALL)
    figures.info("kept %d, degraded %d", len(kept), len(degraded))
    assert (len(kept) <= BIG_FREE, len(degraded) <= SMALL_FREE) == (True, True)
    assert [item["metadata"]["name"] for item in kept + degraded if not node_of(item)] == []
    # A pod admitted without a leader waits for its request, or found it free.
    bound = [tier(item) for item in items if node_of(item)]
    assert bound.count({BIG: "1"}) == BIG_FREE
    assert bound.count({SMALL: "1"}) == len(degraded) > 0


@pytest.mark.contract("S0-B3")
def test_standby_webhook_answers_with_the_leader_decision(
    cp: ControlPlane, make_replica: MakeReplica, namespace: str, kwok_node: MakeNode
) -> None:
    """The API server asks only the standby; the leader's address is on the Lease."""
    kwok_node("ha", mig={"2g.20gb": 2, "1g.10gb": 5})
    leader, standby = leader_of([make_replica("one"), make_replica("two")])
    standby.register()
    here = AnsweredWatcher(cp, namespace, standby)
    lease = cp.client.get(LEASE)
    assert well_known.LEADER_ADDRESS in lease["metadata"]["annotations"]
    # The standby looks at the lease from time to time.
    wait_until(
        lambda: dry_run(here) == {BIG: "1"} and answered(standby) > 0,
        what="the standby to know its leader",
    )
    before = answered(standby)

    for number in range(4):
        here.create(pod(f"p{number}", limits={BIG: "1"}))
    items = here.wait_bound(4)

    assert [tier(item) for item in items] == [{BIG: "1"}] * 2 + [{SMALL: "1"}] * 2
    assert answered(standby) - before >= 4
    assert answered(leader) == 0
    wait_until(
        lambda: metric(leader, "gpu_scheduler_reservations ") == 0, what="every promise to be kept"
    )


def test_pods_are_admitted_unchanged_without_a_leader(
    cp: ControlPlane, make_replica: MakeReplica, namespace: str, kwok_node: MakeNode
) -> None:
    """And the answer does not take longer than the budget."""
    kwok_node("ha", mig={"2g.20gb": 1, "1g.10gb": 5})
    leader, standby = leader_of([make_replica("one"), make_replica("two")])
    standby.register()
    here = Watcher(cp, namespace)
    here.create(pod("p0", limits={BIG: "1"}))
    here.wait_bound(1)
    leader.kill("scheduler")

    stored = here.create(pod("p1", limits={BIG: "1"}))

    assert (tier(stored), annotation(stored, well_known.RESERVATION)) == ({BIG: "1"}, None)
    # The standby becomes leader, and answers the next query itself.
    wait_until(lambda: dry_run(here) == {SMALL: "1"}, what="the standby to lead")


def dry_run(here: Watcher) -> dict[str, str]:
    """What a newcomer would be given."""
    body = pod("probe", limits={BIG: "1"})
    return tier(here.client.create(f"{here.pods_path}?dryRun=All", body))


@pytest.mark.timeout(600)
@pytest.mark.contract("S2-B6")
def test_unmutated_pods_are_recreated_or_get_an_event_with_a_command(
    cp: ControlPlane, namespace: str, kwok_node: MakeNode, tmp_path: Path
) -> None:
    """Design 5.15; a running pod may not be deleted, whatever the scheduler believes."""
    kwok_node("worker", labels={"gpu-node-name": "node1"})
    here = Watcher(cp, namespace)
    product = Product(cp, tmp_path / "product", config={"webhook": {"recreateAfterS": 2}})
    lines = {well_known.MAP: "0=node1:0\n1=node1:1\n2=node1:2\n3=node1:3\n"}
    product.start(webhook=False)
    try:
        here.create(controlled("StatefulSet", "set", replicas=1, annotations=lines))
        here.create(pod("bare-3", annotations=lines))
        told = here.wait_explained("bare-3", "NotMutated: CUDA_VISIBLE_DEVICES is not set")
        assert f"kubectl -n {namespace} get pod bare-3 -o yaml | kubectl replace" in why(told)
        before = here.wait_explained("set-0", "it is recreated once the webhook has answered")

        product.start_webhook()
        product.register()
        [after] = [i for i in here.wait_bound(1) if node_of(i)]

        assert (after["metadata"]["name"], cuda(after)) == ("set-0", "0")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        here.wait_told("set-0", "NotMutated")
        assert [e["reason"] for e in here.events("set-0")].count("NotMutated") == 1
        assert not node_of(here.client.get(here.path("Pod", "bare-3")))
        with pytest.raises(ApiError, match=r"only if its condition DisruptionTarget|in term none"):
            cp.client_for(ACCOUNT).delete(here.path("Pod", "set-0"))
        manifest = cp.kubectl("-n", namespace, "get", "pod", "bare-3", "-o", "yaml")
        cp.kubectl("-n", namespace, "replace", "--force", "-f", "-", input=manifest)
        here.wait_bound(2)
        assert cuda(here.client.get(here.path("Pod", "bare-3"))) == "3"
    finally:
        product.close()
