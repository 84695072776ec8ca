"""kube-scheduler and the product allocate from the same pools at the same time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.dra_objects import devices_of, kube_scheduler
from tests.controlplane.workloads import fetch, node_of, why
from tests.dra import FINALIZER
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

NODES = ("two-1", "two-2")
DEVICES = 16
#: Pods of each scheduler: as many as there are devices.
PODS = len(NODES) * DEVICES
ROUNDS = [
    pytest.param(1, id="once"),
    pytest.param(6, id="six-times", marks=[pytest.mark.nightly, pytest.mark.timeout(1200)]),
]
OURS, THEIRS = "gpu-scheduler", "default-scheduler"


def metric(product: Product, name: str) -> int:
    """A metric of the scheduler; 0 where it has no sample."""
    page = fetch(product.health_port, "/metrics")
    found = re.findall(rf"^{re.escape(name)} (\S+)$", page, re.M)
    return round(float(found[0])) if found else 0


def gave_way(product: Product) -> int:
    """How many placements gave way so far."""
    return metric(product, 'gpu_scheduler_claim_allocations_total{result="collision"}')


def counted(product: Product) -> int:
    """How many claims that collide the scheduler counts."""
    return metric(product, "gpu_scheduler_colliding_claims")


def counts(product: Product, devices: int) -> bool:
    """Whether it counts the later one of the two claims of each of these devices.

    Both are counted where the watch was interrupted, and the order of the two is not known.
    """
    return devices <= counted(product) <= 2 * devices


def compete(here: Devices) -> list[str]:
    """All pods wait, then the devices are published; returns the slices."""
    for number in range(PODS):
        for scheduler in (OURS, THEIRS):
            here.user(f"{scheduler}-{number}", template="one-gpu", scheduler=scheduler)
    here.wait("every pod to wait", lambda items: len(items) == 2 * PODS and all(map(why, items)))
    return [here.publish(node, *(f"gpu-{n}" for n in range(DEVICES))) for node in NODES]


def settled(here: Devices) -> dict[str, list[str]]:
    """Wait until bound pods use every device, and no other pod has one; the devices of each pod."""
    found: dict[str, list[str]] = {}

    def is_settled() -> bool:
        bound = {item["metadata"]["name"] for item in here.pods() if node_of(item)}
        claims = here.client.get(here.claim_path())["items"]
        given = {one["metadata"]["ownerReferences"][0]["name"]: devices_of(one) for one in claims}
        found.clear()
        found.update({name: devices for name, devices in given.items() if devices})
        used = {device for name in bound for device in given[name]}
        return len(used) == PODS and found.keys() <= bound

    wait_until(is_settled, what="bound pods to use every device", timeout_s=240)
    return found


def clear(here: Devices, slices: list[str]) -> None:
    """No slice, no pod and no claim is left."""
    for path in slices:
        here.client.delete(path)
    for item in here.pods():
        here.client.delete(here.path("Pod", item["metadata"]["name"]))
    here.client.wait_for(
        here.claim_path(), lambda seen: not seen["items"], what="the claims to be gone"
    )


@pytest.mark.parametrize("rounds", ROUNDS)
def test_no_device_is_given_twice_to_our_pods_beside_kube_scheduler(
    here: Devices,
    cp: ControlPlane,
    product: Product,
    kwok_node: MakeNode,
    record_testsuite_property: Callable[[str, object], None],
    rounds: int,
) -> None:
    """Devices that kube-scheduler allocates after us, without looking, are counted."""
    for node in NODES:
        kwok_node(node)
    here.template("one-gpu")
    before, twice = gave_way(product), 0
    with kube_scheduler(cp):
        for _ in range(rounds):
            slices = compete(here)
            given = settled(here)
            ours, theirs = (
                Counter(d for name, devices in given.items() if of in name for d in devices)
                for of in (OURS, THEIRS)
            )
            assert max(ours.values(), default=0) <= 1, "a device is given twice to our pods"
            collisions = len(ours.keys() & theirs.keys())
            wait_until(
                partial(counts, product, collisions),
                what=f"claims that collide on {collisions} devices to be counted",
                last=partial(counted, product),
            )
            twice += collisions
            clear(here, slices)
    record_testsuite_property("two schedulers: devices", PODS * rounds)
    record_testsuite_property("two schedulers: gave way", gave_way(product) - before)
    record_testsuite_property("two schedulers: devices in two claims", twice)


def test_claim_with_a_device_of_another_claim_gives_way(here: Devices, kwok_node: MakeNode) -> None:
    """Another scheduler, or a late write of a former leader, has allocated a device in use."""
    here.publish(kwok_node("late-1"), "gpu-0", "gpu-1")
    here.claim("first")
    here.user("a", "first")
    here.wait_bound(1)
    [device] = here.given("a")
    here.claim("late")
    here.client.patch(here.claim_path("late"), {"metadata": {"finalizers": [FINALIZER]}})
    allocation = {"allocation": here.status("first")["allocation"]}
    here.client.patch(f"{here.claim_path('late')}/status", {"status": allocation})

    here.user("b", "late")

    here.wait_bound(2)
    assert here.given("a") == [device]
    assert {*here.given("b"), device} == {"late-1/gpu-0", "late-1/gpu-1"}
    text = f"device {here.driver}/{device} is also allocated to claim {here.namespace}/first"
    wait_until(
        lambda: any(text in one["note"] for one in here.events("b")),
        what="an event with the other claim",
    )
