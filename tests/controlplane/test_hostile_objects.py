"""Nothing that a tenant's pod or a node says stops the product, or stands in other tenants' way.

Each attack ended a process, filled its memory or kept other tenants' pods waiting once. The right
outcome is the same for all: both programs live within the chart's limits, the hostile pod is
refused or waits with a reason, and pods of another tenant are placed meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import pytest

from scheduler.model import well_known
from tests.controlplane import hostile
from tests.controlplane.conftest import MakeNode
from tests.controlplane.memory import limits_mib, peak_mib
from tests.controlplane.migration_scene import QUICK, degraded, of
from tests.controlplane.tenants import Tenant, assert_unharmed, kubelet, refuses
from tests.controlplane.workloads import Json, controlled, cuda, fetch, node_of, pod, tier
from tests.patience import SLOW_MACHINE
from tools.controlplane import Client, ControlPlane, FakeNode, add_nodes, wait_until
from tools.product import ROOT, Product

POLICIES: Final = ROOT / "cluster" / "admission-policies.yaml"
GPU, BIG, SMALL = hostile.GPU, hostile.BIG, hostile.SMALL
LIMITS_MIB: Final = limits_mib()
CONFIG: Final = {"maps": {"allow": "labelled"}, **QUICK}
figures = logging.getLogger("figures")


@pytest.fixture(scope="module")
def cp(guarded: ControlPlane) -> ControlPlane:
    """A control plane on which a node's identity is limited to its own node."""
    return guarded


@pytest.fixture(scope="module")
def running(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One product for the whole file, which looks for moves at once."""
    with Product(cp, tmp_path_factory.mktemp("product"), config=CONFIG) as product:
        yield product


@pytest.fixture(scope="module")
def users(cp: ControlPlane) -> dict[str, Tenant]:
    """Three users; only carol's namespace may use maps."""
    allowed = {well_known.MAPS_ALLOWED: "allowed"}
    return {
        "alice": Tenant(cp, "alice", "tenant-a"),
        "bob": Tenant(cp, "bob", "tenant-b"),
        "carol": Tenant(cp, "carol", "tenant-c", allowed),
    }


@pytest.fixture
def alice(users: dict[str, Tenant], kwok_node: MakeNode) -> Iterator[Tenant]:
    """The hostile tenant; the pods are gone before the nodes."""
    yield users["alice"]
    users["alice"].remove_everything()


@pytest.fixture
def bob(users: dict[str, Tenant], kwok_node: MakeNode) -> Iterator[Tenant]:
    """A tenant that requests a GPU."""
    yield users["bob"]
    users["bob"].remove_everything()


@pytest.fixture
def carol(users: dict[str, Tenant], kwok_node: MakeNode) -> Iterator[Tenant]:
    """A tenant that may use maps."""
    yield users["carol"]
    users["carol"].remove_everything()


@pytest.fixture
def product(running: Product) -> Product:
    """The product, with both programs; an earlier attack may have ended one."""
    for name, begin in (
        ("scheduler", running.start_scheduler),
        ("webhook", running.start_webhook),
    ):
        if not running.is_running(name):
            begin()
    return running


def assert_within_limits(product: Product) -> None:
    """Neither program ended, or used more memory than the chart allows it."""
    assert_unharmed(product)
    peaks = {name: peak_mib(pid) for name, pid in product.pids.items()}
    figures.info("peak memory in MiB: %s", peaks)
    assert {name: peak for name, peak in peaks.items() if peak > LIMITS_MIB[name]} == {}


def restart(product: Product, name: str) -> None:
    """As the kubelet does after an end."""
    product.stop(name)
    (product.start_scheduler if name == "scheduler" else product.start_webhook)()


# --- a count that is no count -------------------------------------------------------------------

COUNTS = [
    pytest.param(hostile.MOST, id="the-largest-quantity"),
    pytest.param(60_000_000, id="sixty-million"),
]


@pytest.mark.parametrize("count", COUNTS)
def test_pod_requesting_more_slices_than_exist_waits_with_a_reason(
    alice: Tenant, bob: Tenant, product: Product, kwok_node: MakeNode, count: int
) -> None:
    kwok_node("mig", mig={"2g.20gb": 2})

    if not alice.is_refused(hostile.mig_count("many", count)):
        assert alice.wait_answered("many", product) != ""
    bob.wait_served(pod("honest", limits={BIG: "1"}), product)

    restart(product, "scheduler")
    bob.wait_served(pod("after-a-restart", limits={BIG: "1"}), product)
    assert_within_limits(product)


# --- annotations that moves read ------------------------------------------------------------------


@contextmanager
def no_policies(cp: ControlPlane) -> Iterator[None]:
    """A cluster in which the admission policies are installed later than some pod."""
    # Of another scheduler: our webhook takes such an annotation away before it is asked about.
    probe = pod("probe", annotations={well_known.DEVICES: "gpu:0"}, scheduler=hostile.ELSEWHERE)

    def are_away() -> bool:
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        return not refuses(lambda: cp.client.create(path, probe))

    cp.kubectl("delete", "-f", str(POLICIES))
    try:
        wait_until(are_away, what="the policies to be away")
        yield
    finally:
        cp.kubectl("apply", "-f", str(POLICIES))
        wait_until(lambda: not are_away(), what="the policies to be in force")


def move_of_another_scheduler(cp: ControlPlane, alice: Tenant, product: Product) -> None:
    with no_policies(cp):
        alice.create(hostile.unreadable_move("moved"))


def tier_nodes(cp: ControlPlane, alice: Tenant, product: Product) -> None:
    alice.create(hostile.unreadable_tier_nodes("waits"))
    alice.wait_answered("waits-", product)


def nested_original(cp: ControlPlane, alice: Tenant, product: Product) -> None:
    alice.create(hostile.nested_original("nested"))
    alice.wait_answered("nested-", product)


def huge_original(cp: ControlPlane, alice: Tenant, product: Product) -> None:
    """It is compared with dynamic MIG nodes."""
    alice.create(hostile.huge_original("huge", tolerations=hostile.TOLERATES))
    alice.wait_answered("huge-", product)


def nothing(cp: ControlPlane, alice: Tenant, product: Product) -> None:
    """To see that the rest of the test does what it says."""


MOVED = [nothing, move_of_another_scheduler, tier_nodes, nested_original, huge_original]


@pytest.mark.parametrize("attack", MOVED)
def test_unreadable_annotations_do_not_stop_migrations_of_other_pods(
    cp: ControlPlane,
    alice: Tenant,
    bob: Tenant,
    product: Product,
    kwok_node: MakeNode,
    attack: Callable[[ControlPlane, Tenant, Product], None],
) -> None:
    """The scheduler that has just started looks at all of them, and restores the honest one."""
    kwok_node("cut", mig={"2g.20gb": 1, "1g.10gb": 4})
    for_hostile_pods = hostile.dynamic_mig_node("dynamic")
    kwok_node("dynamic", labels=for_hostile_pods.labels, taints=for_hostile_pods.taints)
    bob.wait_served(pod("holder", limits={BIG: "1"}), product)
    attack(cp, alice, product)
    # Two of them: the only pod of a Deployment is not moved unless it says so.
    degraded(bob, controlled("Deployment", "web", replicas=2, limits={BIG: "1"}), 2)

    restart(product, "scheduler")
    bob.client.delete(bob.path("Pod", "holder"), {"gracePeriodSeconds": 0})

    def is_restored() -> bool:
        assert_unharmed(product)
        return any(tier(item) == {BIG: "1"} and node_of(item) for item in of(bob.pods(), "web"))

    wait_until(is_restored, what="web with the big slice", last=lambda: of(bob.pods(), "web"))
    assert_within_limits(product)


# --- what a node says -----------------------------------------------------------------------------


def says(node: Client, name: str, metadata: Json, allocatable: Json | None = None) -> None:
    """A node changes itself; a refusal is a right answer too."""
    path = f"/api/v1/nodes/{name}"
    refuses(lambda: node.patch(path, {"metadata": metadata}))
    if allocatable is not None:
        status = {"capacity": allocatable, "allocatable": allocatable}
        refuses(lambda: node.patch(f"{path}/status", {"status": status}))


def wait_heard(bob: Tenant, product: Product, kwok_node: MakeNode, name: str) -> None:
    """What was said of nodes before is known once a pod is on a node that came later."""
    kwok_node(name, gpus=1, labels={"only": name})
    body = pod(f"on-{name}", limits={GPU: "1"}, nodeSelector={"only": name})
    bob.wait_served(body, product)


def test_unreadable_node_annotation_does_not_end_the_process(
    cp: ControlPlane, bob: Tenant, product: Product, kwok_node: MakeNode
) -> None:
    kwok_node("g1", gpus=4)
    kwok_node("g2", gpus=4)

    says(kubelet(cp, "g2"), "g2", {"annotations": {well_known.UNUSABLE_DEVICES: hostile.DIGITS}})

    wait_heard(bob, product, kwok_node, "later")
    restart(product, "scheduler")
    wait_heard(bob, product, kwok_node, "last")
    assert_within_limits(product)


def test_node_with_30_million_gpus_uses_no_memory(
    cp: ControlPlane, bob: Tenant, product: Product, kwok_node: MakeNode
) -> None:
    kwok_node("g1", gpus=1)
    kwok_node("g2", gpus=4)

    labels = {well_known.NUMBERED: "numbered"}
    says(kubelet(cp, "g2"), "g2", {"labels": labels}, {GPU: "30000000", "cpu": "1", "pods": "9"})
    wait_heard(bob, product, kwok_node, "later")
    bob.create(pod("more-than-honest-nodes-have", limits={GPU: "3"}))
    bob.wait_answered("more-than-honest-nodes-have", product)

    bob.wait_served(pod("one", limits={GPU: "1"}, nodeSelector={hostname(): "g1"}), product)
    assert_within_limits(product)


def hostname() -> str:
    return "kubernetes.io/hostname"


def test_node_claiming_another_alias_gets_no_maps(
    cp: ControlPlane, carol: Tenant, bob: Tenant, product: Product, kwok_node: MakeNode
) -> None:
    kwok_node("g1", gpus=4)
    kwok_node("g2", gpus=4)

    says(kubelet(cp, "g2"), "g2", {"labels": {well_known.NODE_ALIASES[0]: "g1"}})
    wait_heard(bob, product, kwok_node, "later")

    found = carol.wait_served(pod("mapped-0", annotations={well_known.MAP: "0=g1:0,1"}), product)
    assert (node_of(found), cuda(found)) == ("g1", "0,1")
    assert_within_limits(product)


# --- what the webhook is asked --------------------------------------------------------------------


def test_dry_run_with_millions_of_gpus_leaves_other_pods_their_env(
    alice: Tenant, carol: Tenant, product: Product, kwok_node: MakeNode
) -> None:
    """Twenty million are enough to show the fault, and the machine survives it."""
    kwok_node("g1", gpus=4)
    body = hostile.local_devices("bomb-7", 20_000_000, "g1")
    mapped = pod("mapped-0", annotations={well_known.MAP: "0=g1:2"})
    seen: list[str | None] = []

    with ThreadPoolExecutor(1) as pool:
        bomb = pool.submit(alice.is_refused, body, dry_run=True)
        while not bomb.done() or len(seen) < 5:
            seen.append(cuda(carol.client.create(f"{carol.pods_path}?dryRun=All", mapped)))
        bomb.result()

    figures.info("%d mapped pods meanwhile", len(seen))
    assert set(seen) == {"2"}
    assert_within_limits(product)


# --- maps without the right to map ----------------------------------------------------------------


def placed_past_us(alice: Tenant, product: Product) -> None:
    alice.is_refused(hostile.map_past_the_scheduler("past-0", "g1"))


def annotated_afterwards(alice: Tenant, product: Product) -> None:
    alice.wait_served(pod("later-0"), product)
    note = {"metadata": {"annotations": {well_known.MAP: "0=g1:0"}}}
    refuses(lambda: alice.client.patch(alice.path("Pod", "later-0"), note))


@pytest.mark.parametrize("attack", [placed_past_us, annotated_afterwards])
def test_unpermitted_map_holds_nothing(
    alice: Tenant,
    bob: Tenant,
    product: Product,
    kwok_node: MakeNode,
    attack: Callable[[Tenant, Product], None],
) -> None:
    """Every GPU of the only node goes to a pod that asks for it."""
    kwok_node("g1", gpus=4)

    attack(alice, product)

    bob.wait_served(pod("all-of-it", limits={GPU: "4"}), product)
    assert_within_limits(product)


# --- pods that are dear to decide -----------------------------------------------------------------

BOMBS, TERMS, NODES = 20, 4000, 50


@pytest.fixture
def many_nodes(cp: ControlPlane) -> Iterator[None]:
    """Nodes whose labels are compared with every term."""
    labels = {"many": "nodes"}
    add_nodes(cp.client, [FakeNode(name=f"n{n}", gpus=1, labels=labels) for n in range(NODES)])
    yield
    cp.client.delete("/api/v1/nodes?labelSelector=many%3Dnodes")


@pytest.mark.usefixtures("many_nodes")
def test_pods_with_thousands_of_affinity_terms_delay_no_other_pod(
    alice: Tenant, bob: Tenant, product: Product
) -> None:
    """The readiness page answers within its probe's second, and no leadership is lost."""
    waits: list[float] = []

    with ThreadPoolExecutor(2) as pool:
        bodies = [hostile.affinity_terms(f"dear{n}", TERMS) for n in range(BOMBS)]
        created = [pool.submit(alice.is_refused, body) for body in bodies]
        for number in range(4):
            begun = time.monotonic()
            bob.wait_served(pod(f"honest{number}", limits={GPU: "1"}), product)
            waits.append(time.monotonic() - begun)
        refused = [one.result() for one in created]

    figures.info("%d refused; an honest pod waited %s s", sum(refused), waits)
    assert max(waits) < 10.0 * SLOW_MACHINE
    assert_answers(product, "/ready")
    assert "is not the leader any more" not in product.log("scheduler")
    assert_within_limits(product)


def assert_answers(product: Product, page: str) -> None:
    """A probe fails after three answers in a row that took longer than a second."""
    times = []
    for _ in range(3):
        begun = time.monotonic()
        fetch(product.health_port, page)
        times.append(time.monotonic() - begun)
    figures.info("%s answered after %s s", page, times)
    assert min(times) < 1.0
