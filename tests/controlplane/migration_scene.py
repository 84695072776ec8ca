"""Migrations on the real API server: one partitioned node, whose big slice a bare pod holds."""

from __future__ import annotations

import logging
import time
from typing import Any

from scheduler.model import well_known
from scheduler.model.crd import migration_codec
from tests.controlplane.answered import AnsweredWatcher
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Json, Watcher, controlled, node_of, pod, tier
from tests.patience import PATIENCE_S
from tools.controlplane import wait_until
from tools.product import NAMESPACE, Product

BIG = "nvidia.com/mig-2g.20gb"
SMALL = "nvidia.com/mig-1g.10gb"
AUTO = {well_known.RESTORE: "auto"}
TICKETS = migration_codec.path(NAMESPACE)
QUICK = {"restore": {"minAgeS": 0, "cooldownS": 1, "rescueAfterS": 1}}
#: Shown by `pytest --log-cli-level=info`.
figures = logging.getLogger("figures")


def cut_node(product: Product, namespace: str, kwok_node: MakeNode) -> Watcher:
    """A node with one big slice, which a bare pod holds, and two small ones."""
    watcher = AnsweredWatcher(product.plane, namespace, product)
    kwok_node(node(watcher), mig={"2g.20gb": 1, "1g.10gb": 2}, labels={"here": namespace})
    watcher.create(wants(watcher, "holder"))
    watcher.wait_bound(1)
    return watcher


def wants(here: Watcher, name: str, slice_: str = BIG, **more: Any) -> Json:
    """A bare pod."""
    return pod(name, limits={slice_: "1"}, **near(here), **more)


def deployment(here: Watcher, name: str, replicas: int = 2, **more: Any) -> Json:
    """A Deployment whose pods want the big slice."""
    return controlled(
        "Deployment", name, replicas=replicas, limits={BIG: "1"}, **near(here), **more
    )


def node(here: Watcher) -> str:
    """This test's node: what another one left promised, on a node of its own, is no matter here."""
    return f"cut-{here.namespace}"


def near(here: Watcher) -> Json:
    """This test's nodes, whichever namespace of it asks."""
    return {"nodeSelector": {"here": here.namespace.removesuffix("-b")}}


def of(items: list[Json], owner: str) -> list[Json]:
    """The pods of an owner that are not on their way out."""
    return [
        item
        for item in items
        if item["metadata"]["name"].startswith(owner + "-")
        and "deletionTimestamp" not in item["metadata"]
    ]


def degraded(here: Watcher, body: Json, count: int) -> list[Json]:
    """Create a workload whose pods all get the small slice; they are ready for their owner.

    The scheduler reads an owner with a pod that is not ready again after 30 s only.
    """
    here.create(body)
    name = body["metadata"]["name"]
    items = here.wait(
        f"{count} degraded pods",
        lambda items: (
            sum(tier(i) == {SMALL: "1"} and bool(node_of(i)) for i in of(items, name)) == count
        ),
    )
    if body["kind"] != "Job":
        here.client.wait_for(
            here.path(body["kind"], name), is_steady, what=f"the pods of {name} to be ready"
        )
    return of(items, name)


def is_steady(owner: Json) -> bool:
    """Whether a Deployment or StatefulSet knows that all its pods are ready and up to date."""
    wanted, status = owner["spec"]["replicas"], owner["status"]
    counts = {status.get(key) for key in ("replicas", "readyReplicas", "updatedReplicas")}
    is_seen = status.get("observedGeneration") == owner["metadata"]["generation"]
    return is_seen and counts == {wanted}


def free_the_slice(here: Watcher) -> float:
    here.client.delete(here.path("Pod", "holder"), {"gracePeriodSeconds": 0})
    return time.monotonic()


def restored(here: Watcher, name: str, timeout_s: float = PATIENCE_S) -> Json:
    """The pod of a workload that has the big slice, once it is bound and its ticket is gone."""

    def check(items: list[Json]) -> bool:
        return any(tier(item) == {BIG: "1"} and node_of(item) for item in of(items, name))

    items = here.wait(f"{name} with the big slice", check, timeout_s)
    (found,) = [item for item in of(items, name) if tier(item) == {BIG: "1"} and node_of(item)]
    return found


def open_tickets(here: Watcher) -> list[Json]:
    """Those of this test's pods whose moves are under way; the others are kept for a while."""
    items = here.client.get(TICKETS)["items"]
    ours = [item for item in items if item["spec"]["pod"]["namespace"] == here.namespace]
    return [item for item in ours if "status" not in item]


def no_ticket(here: Watcher) -> None:
    wait_until(lambda: not open_tickets(here), what="every move to be over")


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
