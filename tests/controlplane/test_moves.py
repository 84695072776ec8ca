"""Rescue and restore on the real API server, with the real controllers that make pods again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpuctl.product import NAMESPACE, Product
from scheduler.model import migrule, names
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import (
    Json,
    Watcher,
    annotation,
    controlled,
    job,
    node_of,
    pod,
    tier,
)
from tools.controlplane import ControlPlane, wait_until

BIG = "nvidia.com/mig-2g.20gb"
SMALL = "nvidia.com/mig-1g.10gb"
AUTO = {names.RESTORE: "auto"}
TICKETS = migrule.path(NAMESPACE)
QUICK = {"restore": {"minAgeS": 0, "cooldownS": 1, "rescueAfterS": 1}}
IGNORE = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}],
}
#: Shown by `pytest --log-cli-level=info`.
figures = logging.getLogger("figures")


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Scheduler and webhook with short times."""
    with Product(cp, tmp_path_factory.mktemp("product"), config=QUICK) as running:
        yield running


@pytest.fixture
def here(product: Product, cp: ControlPlane, namespace: str, kwok_node: MakeNode) -> Watcher:
    """A namespace and a node with one big slice, which a bare pod holds, and two small ones."""
    kwok_node("cut", mig={"2g.20gb": 1, "1g.10gb": 2}, labels={"here": namespace})
    watcher = Watcher(cp, namespace)
    watcher.create(wants("holder"))
    watcher.wait_bound(1)
    return watcher


def wants(name: str, **more: Any) -> Json:
    return pod(name, limits={BIG: "1"}, **more)


def deployment(name: str, replicas: int = 2, **more: Any) -> Json:
    return controlled("Deployment", name, replicas=replicas, limits={BIG: "1"}, **more)


def of(items: list[Json], owner: str) -> list[Json]:
    """The pods of an owner that are not on their way out."""
    return [
        item
        for item in items
        if item["metadata"]["name"].startswith(owner + "-")
        and "deletionTimestamp" not in item["metadata"]
    ]


def degraded(here: Watcher, body: Json, count: int) -> list[Json]:
    """Create a workload whose pods all get the small slice."""
    here.create(body)
    name = body["metadata"]["name"]
    return of(
        here.wait(
            f"{count} degraded pods",
            lambda items: (
                sum(tier(i) == {SMALL: "1"} and bool(node_of(i)) for i in of(items, name)) == count
            ),
        ),
        name,
    )


def free_the_slice(here: Watcher) -> float:
    here.client.delete(here.path("Pod", "holder"), {"gracePeriodSeconds": 0})
    return time.monotonic()


def restored(here: Watcher, name: str, timeout_s: float = 40.0) -> Json:
    """The pod of a workload that has the big slice, once it is bound and its ticket is gone."""

    def check(items: list[Json]) -> bool:
        return any(tier(item) == {BIG: "1"} and node_of(item) for item in of(items, name))

    items = here.wait(f"{name} with the big slice", check, timeout_s)
    (found,) = [item for item in of(items, name) if tier(item) == {BIG: "1"} and node_of(item)]
    return found


def no_ticket(here: Watcher) -> None:
    here.client.wait_for(TICKETS, lambda seen: not seen["items"], what="every ticket to be gone")


def said(here: Watcher, name: str, reason: str) -> list[str]:
    """What events with this reason say about an object."""
    return [event["note"] for event in here.events(name) if event["reason"] == reason]


def hears(here: Watcher, name: str, reason: str, text: str) -> None:
    """Wait for an event."""
    wait_until(
        lambda: any(text in note for note in said(here, name, reason)),
        what=f"event {reason} on {name} with {text!r}",
        last=lambda: here.events(name),
    )


def uids(items: list[Json]) -> set[str]:
    return {item["metadata"]["uid"] for item in items}


@pytest.mark.contract("S3-23", "S3-B7", "S3-B12", "S3-B21")
def test_a_freed_slice_goes_back_to_the_degraded_pod_of_a_deployment(here: Watcher) -> None:
    """In under five seconds, of which one is the pod's grace and one the slice's steadiness."""
    before = degraded(here, deployment("web", terminationGracePeriodSeconds=1), 2)

    freed = free_the_slice(here)
    found = restored(here, "web", timeout_s=10.0)
    took_s = time.monotonic() - freed

    figures.info("restore of a Deployment's pod: %.2f s", took_s)
    assert took_s < 5.0
    assert annotation(found, names.FALLBACK) is None
    assert (annotation(found, names.MOVE) or "").startswith("restore-1-")
    no_ticket(here)
    (gone,) = [i for i in before if i["metadata"]["uid"] not in uids(here.pods())]
    name = gone["metadata"]["name"]
    hears(here, name, "Restoring", "2g.20gb is free on node cut")
    hears(here, found["metadata"]["name"], "Restored", "2g.20gb in place of 1g.10gb")
    # The other one stays as it is: there is nothing better for it.
    assert len(of(here.pods(), "web")) == 2
