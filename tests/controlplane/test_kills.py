"""kill -9 of the scheduler, again and again, while pods come and go.

The judge is the API server's audit log (``verdict.py``). Kills come at random moments of a seeded
course, and on purpose at the two worst ones: after a Binding whose response is lost, and
between a pod's admission and its Binding, which then never arrives, or arrives in the next term.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.device_audit import crimes, read
from tests.controlplane.proxy import HeldAnswers, HeldRequests, Proxy
from tests.controlplane.workloads import Json, Watcher, fetch, node_of, pod, why
from tools.controlplane import ControlPlane, ControlPlaneError, wait_until
from tools.product import Product

NUMBERED: Final = {"gpu-scheduler.io/devices": "numbered"}
MAP: Final = "gpu-scheduling-map"
BIG: Final = "nvidia.com/mig-2g.20gb"
#: Short, so that a hundred takeovers do not take all night; still above what a busy machine needs.
LEASE: Final = {"leaseDurationS": 2, "renewDeadlineS": 1.5, "retryPeriodS": 0.3}
CAPACITY: Final = {
    "numbered0": {"gpu": 4},
    "numbered1": {"gpu": 4},
    "counted": {"gpu": 4},
    "mig": {"2g.20gb": 4, "1g.10gb": 6},
}
ALIVE_MAX: Final = 40
figures = logging.getLogger("figures")


@pytest.fixture(scope="module")
def cp(rough: ControlPlane) -> ControlPlane:
    """A control plane whose whole audit log may be read."""
    return rough


@pytest.fixture
def proxy(cp: ControlPlane, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(cp, tmp_path / "proxy") as running:
        yield running


@pytest.fixture
def product(cp: ControlPlane, proxy: Proxy, tmp_path: Path) -> Iterator[Product]:
    """Scheduler behind the proxy, webhook beside it in scope ``all``."""
    running = Product(
        cp,
        tmp_path / "product",
        config={"leaderElection": LEASE},
        scope="all",
        kubeconfig=proxy.kubeconfig(),
    )
    with running:
        yield running


class Traffic:
    """Pods that come all the time, and go some seconds after they were bound."""

    def __init__(self, here: Watcher, rng: random.Random) -> None:
        self._here = here
        self._rng = rng
        self._stop = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._number = 0
        self._leaves: dict[str, float] = {}
        self.problem: BaseException | None = None

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def close(self) -> None:
        """No more pods are created; existing pods are deleted after their Binding."""
        self._is_closed = True

    def end(self) -> None:
        """No more pods come or go."""
        self._stop.set()
        self._thread.join(60)
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._rng.uniform(0.05, 0.35)):
                items = self._here.pods()
                if len(items) < ALIVE_MAX and not self._is_closed:
                    self._here.create(self._newcomer())
                self._see_off(items)
        except (ControlPlaneError, OSError) as error:
            self.problem = error

    def _newcomer(self) -> Json:
        self._number += 1
        name = f"p{self._number}-0"
        kind = self._rng.choice(("gpu", "gpu", "gpu", "mapped", "mapped", "mig"))
        if kind == "gpu":
            return pod(name, limits={"nvidia.com/gpu": self._rng.choice("112")})
        if kind == "mig":
            return pod(name, limits={BIG: "1"})
        node = self._rng.choice(("numbered0", "numbered1", "plain"))
        devices = ",".join(map(str, sorted(self._rng.sample(range(4), self._rng.choice((1, 2))))))
        # The second line makes each text one of its own: equal ones may share their devices.
        text = f"0={node}:{devices}\n{self._number}={node}:0\n"
        return pod(name, annotations={MAP: text})

    def _see_off(self, items: list[Json]) -> None:
        now = time.monotonic()
        for item in items:
            name = item["metadata"]["name"]
            if node_of(item):
                leaves = self._leaves.setdefault(name, now + self._rng.uniform(0.5, 4.0))
                if now >= leaves:
                    self._here.client.delete(self._here.path("Pod", name))


class Executioner:
    """Kills the scheduler in one of four ways, and starts it again."""

    def __init__(self, product: Product, proxy: Proxy, rng: random.Random) -> None:
        self._product = product
        self._proxy = proxy
        self._rng = rng
        self.late: list[int] = []

    def restart(self) -> None:
        self._product.kill("scheduler")
        self._proxy.heal()
        self._product.start_scheduler()

    def at_random(self) -> None:
        """Whatever it is doing."""
        time.sleep(self._rng.uniform(0.0, 2.0))  # chance, not synchronisation
        self.restart()

    def while_a_binding_is_unanswered(self) -> None:
        """The API server executes it, and the response is lost."""
        held = HeldAnswers()
        self._proxy.always("bind", held)
        wait_until(lambda: held.held > 0, what="a Binding without an answer", timeout_s=180)
        self.restart()

    def between_admission_and_bind(self) -> None:
        """The Binding is on its way and never arrives."""
        held = HeldRequests()
        self._proxy.always("bind", held)
        wait_until(lambda: held.held > 0, what="a Binding on its way", timeout_s=180)
        self._product.kill("scheduler")
        held.is_over = True
        self._proxy.heal()
        self._product.start_scheduler()

    def with_a_binding_that_arrives_in_the_next_term(self) -> None:
        """Only the API server can refuse it."""
        held = HeldRequests()
        self._proxy.always("bind", held)
        wait_until(lambda: held.held > 0, what="a Binding on its way", timeout_s=180)
        self._product.kill("scheduler")
        self._proxy.heal()
        self._product.start_scheduler()
        self._proxy.wait_for_call("bind", 1, timeout_s=180)  # the next term has begun
        held.is_late, expected = True, held.held
        held.is_over = True
        wait_until(lambda: len(held.late) == expected, what="the late Binding's answer")
        self.late += [reply.status for reply in held.late]


def course(kills: int, rng: random.Random) -> list[str]:
    """In which order the ways are taken: of a hundred, 32 unanswered and 18 before the Binding."""
    unanswered, before, late = -(-kills * 32 // 100), -(-kills * 10 // 100), -(-kills * 8 // 100)
    ways = (
        ["unanswered"] * unanswered
        + ["before"] * before
        + ["late"] * late
        + ["random"] * (kills - unanswered - before - late)
    )
    rng.shuffle(ways)
    return ways


def is_every_pod_answered(items: list[Json]) -> bool:
    """Whether each pod has a node or a reason."""
    return all(node_of(item) or why(item) for item in items)


KILLS = [
    pytest.param(5, 1, id="five", marks=pytest.mark.timeout(600)),
    pytest.param(100, 2, id="a-hundred", marks=[pytest.mark.nightly, pytest.mark.timeout(2400)]),
]


@pytest.fixture
def here(cp: ControlPlane, namespace: str, kwok_node: MakeNode) -> Watcher:
    """A namespace, and nodes of every kind."""
    kwok_node("numbered0", gpus=4, labels=NUMBERED)
    kwok_node("numbered1", gpus=4, labels=NUMBERED)
    kwok_node("counted", gpus=4)
    kwok_node("plain")
    kwok_node("mig", mig={"2g.20gb": 4, "1g.10gb": 6})
    return Watcher(cp, namespace)


@pytest.mark.contract("S2-B12")
@pytest.mark.parametrize(("kills", "seed"), KILLS)
def test_repeated_kills_double_assign_no_device_and_lose_no_pod(
    cp: ControlPlane, proxy: Proxy, product: Product, here: Watcher, kills: int, seed: int
) -> None:
    axe = Executioner(product, proxy, random.Random(seed + 1))
    ways = {
        "random": axe.at_random,
        "unanswered": axe.while_a_binding_is_unanswered,
        "before": axe.between_admission_and_bind,
        "late": axe.with_a_binding_that_arrives_in_the_next_term,
    }
    plan = course(kills, random.Random(seed + 2))
    started = time.monotonic()
    with Traffic(here, random.Random(seed)) as traffic:
        for way in plan:
            ways[way]()
        took_s = time.monotonic() - started
        traffic.close()
        here.wait("every pod to be bound or explained", is_every_pod_answered, timeout_s=180)
        here.wait("every pod to be bound in the end", lambda found: not found, timeout_s=240)

    figures.info("%d kills in %.0f s: %s", kills, took_s, {way: plan.count(way) for way in ways})
    assert set(axe.late) == {403}, "a Binding of an earlier term is refused by the API server"
    judge(cp, here.namespace, kills)
    wait_until(
        lambda: (
            "gpu_scheduler_over_committed_devices 0.0" in fetch(product.health_port, "/metrics")
        ),
        what="the product's own books to agree",
    )


def judge(cp: ControlPlane, namespace: str, kills: int) -> None:
    """What the API server did, by its own word."""
    log = cp.audit_log
    assert log is not None

    def is_complete() -> bool:
        seen = read(log, namespace)
        return seen.created == seen.deleted

    # The API server writes an event after its response.
    wait_until(is_complete, what="the deletion of every pod in the audit log")
    record = read(log, namespace)
    figures.info(
        "%d pods created, %d Bindings, %d refused",
        len(record.created),
        len(record.stays),
        len(record.refused),
    )
    assert crimes(record.stays, CAPACITY) == []
    assert {stay.pod for stay in record.stays} == record.created == record.deleted
    assert len(record.stays) > 3 * kills, "pods were bound all the time"
