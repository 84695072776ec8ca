"""Networks and API servers that fail: nothing is lost, nothing storms, nothing is placed blindly.

Between the scheduler and the real API server stands a proxy that breaks things (``proxy.py``).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.proxy import (
    Proxy,
    fail,
    lose_answer,
    lose_request,
    swallow,
)
from tests.controlplane.refused_binding import refused_binding
from tests.controlplane.workloads import Watcher, fetch, node_of, pod, why
from tests.patience import PATIENCE_S, SLOW_MACHINE
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

figures = logging.getLogger("figures")
KINDS = ("pods", "nodes", "namespaces")
SILENCE_S = 6.0
#: What the product has by default; the tests' own is much shorter.
LEASE_S = 15
LEASE = {"leaseDurationS": LEASE_S, "renewDeadlineS": 10, "retryPeriodS": 2}
SCHEDULER_LEASE = (
    "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler-system/leases/gpu-scheduler"
)


@pytest.fixture(scope="module")
def cp(rough: ControlPlane) -> ControlPlane:
    """A control plane that may be broken."""
    return rough


@pytest.fixture(scope="module")
def proxy(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy(cp, tmp_path_factory.mktemp("proxy")) as running:
        yield running


@pytest.fixture(scope="module")
def product(
    cp: ControlPlane, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:
    """A scheduler behind the proxy, with the lease of production, and no webhook."""
    config = {
        "leaderElection": LEASE,
        "webhook": {"enabled": False},
        "watch": {"silenceMaxS": SILENCE_S},
    }
    running = Product(
        cp, tmp_path_factory.mktemp("product"), config=config, kubeconfig=proxy.kubeconfig()
    )
    running.start(webhook=False)
    yield running
    running.close()


@pytest.fixture
def here(
    cp: ControlPlane, proxy: Proxy, product: Product, namespace: str, kwok_node: MakeNode
) -> Iterator[Watcher]:
    """A fresh namespace, a node with eight GPUs, and everything in order."""
    kwok_node("gpus", gpus=8)
    watcher = Watcher(cp, namespace)
    yield watcher
    proxy.heal()
    assert product.is_running("scheduler"), product.log("scheduler")


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


def readiness(product: Product) -> str:
    """Why the scheduler is not ready; empty when it is."""
    answer: dict[str, Any] = json.loads(fetch(product.health_port, "/readyz"))
    return str(answer.get("reason", ""))


def one_gpu(name: str) -> dict[str, Any]:
    return pod(name, limits={"nvidia.com/gpu": "1"})


def bound_within(here: Watcher, name: str, seconds: float = PATIENCE_S) -> None:
    """A new pod is bound in time."""
    clock = Clock()
    here.create(one_gpu(name))
    here.wait(
        f"{name} to be bound",
        lambda items: any(i["metadata"]["name"] == name and node_of(i) for i in items),
    )
    figures.info("pod %s was bound after %.1f s", name, clock.seconds)
    assert clock.seconds < seconds, f"{name} was bound after {clock.seconds:.1f} s"


OUTAGES = [
    pytest.param(15, id="short"),
    pytest.param(40, id="forty-seconds", marks=pytest.mark.nightly),
]


@pytest.mark.timeout(600)
@pytest.mark.contract("S2-B12")
@pytest.mark.parametrize("outage_s", OUTAGES)
def test_returning_api_server_is_used_at_once_without_a_request_storm(
    here: Watcher, cp: ControlPlane, proxy: Proxy, product: Product, outage_s: int
) -> None:
    """Field case C08 B. The lease lasts 15 s, is still ours afterwards and is not waited for."""
    bound_within(here, "before")
    term = cp.client.get(SCHEDULER_LEASE)["spec"]["leaseTransitions"]
    pid = product.pids["scheduler"]
    with lasting_outage(cp) as away:
        wait_until(lambda: away.seconds >= outage_s, what="the outage")
        calls = {kind: proxy.count(f"watch {kind}", since=away.started) for kind in KINDS}
        lists = sum(proxy.count(f"list {kind}", since=away.started) for kind in KINDS)
        assert readiness(product)
        cp.start_process("kube-apiserver")

        bound_within(here, "after", LEASE_S)

    figures.info("attempts in %d s: %s", outage_s, calls)
    assert (max(calls.values()) <= 10, lists) == (True, 0), calls
    assert min(calls.values()) >= 1, "it did look"
    assert product.pids["scheduler"] == pid
    assert cp.client.get(SCHEDULER_LEASE)["spec"]["leaseTransitions"] == term
    wait_until(lambda: not readiness(product), what="readiness")


@contextmanager
def lasting_outage(cp: ControlPlane) -> Iterator[Clock]:
    """Until the API server is started again; the next test finds every component connected."""
    away = Clock()
    try:
        cp.stop_process("kube-apiserver")
        yield away
    except BaseException:  # the test failed, and may have started it again or not
        if "kube-apiserver" in cp.processes:
            cp.stop_process("kube-apiserver")
        cp.start_process("kube-apiserver")
        raise
    finally:
        for name in ("kube-controller-manager", "kwok"):  # they are not as quick
            cp.restart(name)


@pytest.mark.timeout(600)
def test_silent_watch_is_detected_and_stops_decisions(
    here: Watcher, proxy: Proxy, product: Product
) -> None:
    """Field case C08 A, for one watch: the process does not go on with a frozen view of nodes."""
    bound_within(here, "before")
    hole = Clock()
    proxy.silent.add("nodes")
    wait_until(lambda: readiness(product) != "", what="the silence to be noticed")
    assert readiness(product) == "the watch of nodes is broken"
    figures.info("noticed after %.1f s, the limit being %.0f", hole.seconds, SILENCE_S)
    assert hole.seconds < SILENCE_S * SLOW_MACHINE

    here.create(one_gpu("meanwhile"))
    proxy.wait_for_call("watch nodes", 2)
    assert proxy.count("bind", since=hole.started) == 0
    assert not node_of(here.client.get(here.path("Pod", "meanwhile")))
    healed = Clock()
    proxy.heal()

    here.wait_bound(2)
    assert healed.seconds < 10 * SLOW_MACHINE
    wait_until(lambda: not readiness(product), what="readiness")


@pytest.mark.timeout(600)
def test_blackholed_network_is_survived(
    here: Watcher, cp: ControlPlane, proxy: Proxy, product: Product
) -> None:
    """Field case C08 A: for longer than the lease lasts, and the connections stay dead."""
    bound_within(here, "before")
    term = cp.client.get(SCHEDULER_LEASE)["spec"]["leaseTransitions"]
    hole = Clock()
    proxy.silent.update(KINDS)
    proxy.always("*", swallow)
    wait_until(lambda: hole.seconds >= 18, what="the lease to run out")
    assert readiness(product)
    proxy.heal()

    bound_within(here, "after", LEASE_S)

    assert cp.client.get(SCHEDULER_LEASE)["spec"]["leaseTransitions"] == term


def test_partial_chunk_is_no_event_and_needs_no_relist(
    here: Watcher, proxy: Proxy, kwok_node: MakeNode
) -> None:
    """Field case C08 C: only one watch is cut, in the middle of a line."""
    lists = proxy.count("list nodes")
    watches = proxy.count("watch nodes")
    proxy.cut.add("nodes")
    kwok_node("cut", gpus=1, labels={"only": "here"})

    here.create(pod("there", limits={"nvidia.com/gpu": "1"}, nodeSelector={"only": "here"}))
    here.wait_bound(1)

    assert "nodes" not in proxy.cut, "something was cut"
    assert proxy.count("watch nodes") > watches
    assert proxy.count("list nodes") == lists


def test_retry_after_is_respected(here: Watcher, proxy: Proxy, kwok_node: MakeNode) -> None:
    """429 with Retry-After on a watch: no list, and no attempt before its time."""
    lists = proxy.count("list nodes")
    proxy.once("watch nodes", fail(429, retry_after="3"))
    begun = Clock()
    proxy.cut.add("nodes")
    kwok_node("busy", gpus=1)

    def watches() -> list[float]:
        return [c.at for c in proxy.calls if c.name == "watch nodes" and c.at > begun.started]

    wait_until(lambda: len(watches()) >= 2, what="two watches of nodes")
    first, second, *_ = watches()
    assert 3 <= second - first < 3 * SLOW_MACHINE
    assert proxy.count("list nodes") == lists
    bound_within(here, "after")


@pytest.mark.contract("S3-B20")
def test_failing_initial_lists_are_retried(here: Watcher, proxy: Proxy, product: Product) -> None:
    for kind, status in (("nodes", 500), ("pods", 503), ("namespaces", 504)):
        proxy.once(f"list {kind}", fail(status), fail(status))
    product.stop("scheduler")
    product.start_scheduler()

    bound_within(here, "after")


@pytest.mark.smoke
@pytest.mark.parametrize(
    "lose", [pytest.param(lose_answer, id="answer"), pytest.param(lose_request, id="request")]
)
def test_binding_with_a_lost_response_is_read_back(
    here: Watcher, proxy: Proxy, product: Product, lose: Any
) -> None:
    """Semantics 7.1: bound once, told once, and the GPU is neither lost nor given twice."""
    begun = Clock()
    proxy.once("bind", lose)
    here.create(one_gpu("lost"))
    [item] = here.wait_bound(1)

    assert why(item) == ""
    line = "Successfully scheduled pod lost to node gpus"
    wait_until(lambda: line in product.log("scheduler"), what="the log to say so")
    wait_until(lambda: here.events("lost") != [], what="the event")
    assert [event["reason"] for event in here.events("lost")] == ["Scheduled"]
    assert proxy.count("bind", since=begun.started) == 2
    for number in range(7):
        here.create(one_gpu(f"more{number}"))
    here.wait_bound(8)
    here.create(one_gpu("ninth"))
    here.wait_explained("ninth", "Insufficient nvidia.com/gpu")


DOOM = [
    pytest.param(20, 5, id="short"),
    pytest.param(120, 8, id="two-minutes", marks=pytest.mark.nightly),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seconds", "tries_max"), DOOM)
def test_pod_with_a_permanently_refused_binding_blocks_no_other(
    here: Watcher, cp: ControlPlane, proxy: Proxy, seconds: int, tries_max: int
) -> None:
    """Field case C29: another policy of the cluster denies it, with the highest priority."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    cp.client.create(classes, {"metadata": {"name": "p1000"}, "value": 1000})
    try:
        with refused_binding(here, "doomed", "gpus"):
            all_of_it = {"nvidia.com/gpu": "8"}
            begun = Clock()
            here.create(pod("doomed", limits=all_of_it, priorityClassName="p1000"))
            here.wait_explained("doomed", "binding failed: ")
            here.create(pod("gated", limits=all_of_it, schedulingGates=[{"name": "team/hold"}]))
            here.create(pod("fine", limits=all_of_it))
            here.wait_bound(1)
            here.client.delete(here.path("Pod", "fine"))
            wait_until(lambda: begun.seconds >= seconds, what="time to pass", timeout_s=seconds + 5)

            until = begun.started + seconds
            tries = [c for c in proxy.calls if c.path.endswith("/doomed/binding") and c.at < until]
            figures.info("%d tries in %d s", len(tries), seconds)
            assert 3 <= len(tries) <= tries_max
            assert not [c for c in proxy.calls if c.path.endswith("/gated/binding")]
            assert "Scheduled" not in {event["reason"] for event in here.events("doomed")}
            gated = here.client.get(here.path("Pod", "gated"))["status"]["conditions"]
            assert [entry["reason"] for entry in gated] == ["SchedulingGated"]
            here.client.patch(here.path("Pod", "gated"), {"spec": {"schedulingGates": None}})
            here.wait_bound(1)
    finally:
        cp.client.delete(f"{classes}/p1000")
