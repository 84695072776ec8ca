"""Pods with claims of templates are restored to the first subrequest, on the real API server.

kube-controller-manager creates the pods, and the claims of their templates.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.migration_scene import QUICK, hears, no_ticket, of, open_tickets, uids
from tests.controlplane.workloads import Json, annotation, controlled, node_of
from tests.dra import claiming, device_json
from tools.controlplane import ControlPlane
from tools.product import Product


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Scheduler and webhook with short times."""
    with Product(cp, tmp_path_factory.mktemp("product"), config=QUICK) as running:
        yield running


def one_large(here: Devices, kwok_node: MakeNode) -> Json:
    """A node with one large device, which the pod ``holder`` has, and two small ones; returns the
    request of a large device, or else a small one."""
    for size in ("large", "small"):
        here.device_class(size, f"device.attributes['{here.driver}'].size == '{size}'")
    devices = [
        device_json(name, attributes={"size": {"string": name.partition("-")[0]}})
        for name in ("large-0", "small-0", "small-1")
    ]
    here.publish(kwok_node(f"restore-{here.namespace}"), *devices)
    here.template("only-large", here.request("gpu", "large"))
    here.user("holder", template="only-large")
    here.wait_bound(1)
    choices = [{"name": size, "deviceClassName": here.named(size)} for size in ("large", "small")]
    return {"name": "gpu", "firstAvailable": choices}


def web(here: Devices, claims: Json) -> list[Json]:
    """A Deployment of two pods with a claim, once they have small devices."""
    here.create(
        controlled("Deployment", "web", replicas=2, terminationGracePeriodSeconds=1, **claims)
    )
    items = here.wait(
        "two pods", lambda found: len([i for i in of(found, "web") if node_of(i)]) == 2
    )
    return of(items, "web")


def sizes(here: Devices) -> list[str]:
    """The devices of the Deployment's pods, sorted."""
    return sorted(
        device.partition("/")[2]
        for item in of(here.pods(), "web")
        for device in here.given(item["metadata"]["name"])
    )


def test_freed_device_goes_to_a_deployment_pod_with_a_later_choice(
    here: Devices, kwok_node: MakeNode
) -> None:
    here.template("either", one_large(here, kwok_node))
    before = web(here, claiming(templates={"accel": "either"}))
    assert sizes(here) == ["small-0", "small-1"]

    here.client.delete(here.path("Pod", "holder"), {"gracePeriodSeconds": 0})
    items = here.wait(
        "a replacement with a node",
        lambda found: any(
            node_of(one) and one["metadata"]["uid"] not in uids(before) for one in of(found, "web")
        ),
    )

    [found] = [one for one in of(items, "web") if one["metadata"]["uid"] not in uids(before)]
    name = found["metadata"]["name"]
    assert (annotation(found, well_known.MIGRATION) or "").startswith("restore-1-")
    assert [one.partition("/")[2] for one in here.given(name)] == ["large-0"]
    hears(here, name, "Restored", "accel/gpu/large in place of accel/gpu/small")
    no_ticket(here)
    [gone] = uids(before) - uids(of(here.pods(), "web"))
    [left] = [one["metadata"]["name"] for one in before if one["metadata"]["uid"] == gone]
    hears(here, left, "Restoring", f"accel/gpu/large is free on node restore-{here.namespace}")


def test_shared_claim_is_not_restored_and_its_pods_are_told(
    here: Devices, kwok_node: MakeNode
) -> None:
    here.claim("shared", one_large(here, kwok_node))
    before = web(here, claiming("shared"))

    here.client.delete(here.path("Pod", "holder"), {"gracePeriodSeconds": 0})

    for one in before:
        name = one["metadata"]["name"]
        hears(here, name, "MigrationBlocked", "it names ResourceClaim shared, which")
    assert uids(of(here.pods(), "web")) == uids(before)
    assert open_tickets(here) == []
