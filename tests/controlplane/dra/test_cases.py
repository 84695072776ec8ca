"""Cases 55 to 60 of the conformance table with the rules of a real API server around them.

The other ones of 54 to 60 are in the files beside this one.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from scheduler.bind.claim_writer import ClaimWriter
from scheduler.model.actions import ReserveClaim, ReserveClaims
from scheduler.state.event import ClaimsReserved
from scheduler.watch.client import Client
from scheduler.watch.decode.dra.claims import read_claim
from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.workloads import Json, node_of
from tests.dra import FINALIZER, allocation_json, device_json, result_json
from tests.http.shells import Heard
from tests.unit.loop.loop_world import Leader
from tools.controlplane import ControlPlane

#: In a namespace with this label claims may have admin access.
ADMIN_NAMESPACE = {"resource.kubernetes.io/admin-access": "true"}
#: Later than every term of the scheduler that runs beside the test.
TERM = 1_000_000


def sized(name: str, size: int) -> Json:
    """A device with an attribute."""
    return device_json(name, attributes={"size": {"int": size}})


def of_size(here: Devices, size: int) -> list[Json]:
    """The selectors of a request for such a device; they fail on a device without a size."""
    return [{"cel": {"expression": f"device.attributes['{here.driver}'].size == {size}"}}]


def wait_placed(here: Devices, name: str) -> None:
    here.wait(
        f"{name} to be bound",
        lambda items: any(one["metadata"]["name"] == name and node_of(one) for one in items),
    )


def test_case_55_no_device_is_given_during_a_change_of_slices(
    here: Devices, kwok_node: MakeNode
) -> None:
    """Neither from the incomplete new generation nor from the complete old one."""
    node = kwok_node("replaced-1")
    here.publish(node, "old", name=here.named("old"), generation=1)
    here.publish(node, "new-0", name=here.named("new-0"), generation=2, slices=2)
    here.claim("mine")

    here.user("a", "mine")
    here.wait_explained("a", "cannot allocate all claims")
    here.publish(node, "new-1", name=here.named("new-1"), generation=2, slices=2)

    here.wait_bound(1)
    [device] = here.given("a")
    assert device in ("replaced-1/new-0", "replaced-1/new-1")


def test_case_56_admin_access_gets_a_device_in_use_and_uses_none(
    here: Devices, kwok_node: MakeNode
) -> None:
    here.client.patch(
        f"/api/v1/namespaces/{here.namespace}", {"metadata": {"labels": ADMIN_NAMESPACE}}
    )
    here.publish(kwok_node("admin-1"), "gpu-0")
    here.template("monitor", here.request(adminAccess=True))
    here.template("one-gpu")

    for name, template in (("m1", "monitor"), ("a", "one-gpu"), ("m2", "monitor")):
        here.user(name, template=template)
        wait_placed(here, name)
    here.user("b", template="one-gpu")

    here.wait_explained("b", "need 1; best node has 0 free")
    assert [here.given(name) for name in ("m1", "a", "m2")] == [["admin-1/gpu-0"]] * 3


def test_case_57_claim_leaves_a_device_that_only_the_next_can_use(
    here: Devices, kwok_node: MakeNode
) -> None:
    here.publish(kwok_node("back-1"), sized("a-big", 2), sized("b-small", 1))
    here.claim("any")
    here.claim("big", here.request(selectors=of_size(here, 2)))

    here.user("a", "any", "big")

    here.wait_bound(1)
    assert here.given("a") == ["back-1/b-small", "back-1/a-big"]


@pytest.mark.kubernetes("1.36", "DRAPartitionableDevices is off by default before")
def test_case_57_partitions_that_need_the_same_counter_never_coexist(
    here: Devices, kwok_node: MakeNode
) -> None:
    def partition(name: str, *slices: int) -> Json:
        counters = {f"memory-slice-{one}": {"value": "1"} for one in slices}
        use = {"counterSet": "card", "counters": counters}
        return {**sized(name, len(slices)), "consumesCounters": [use]}

    node = kwok_node("parts-1")
    every = {f"memory-slice-{one}": {"value": "1"} for one in range(2)}
    card = [{"name": "card", "counters": every}]
    here.publish(node, name=here.named("c"), slices=2, sharedCounters=card, nodeName=node)
    parts = (partition("whole", 0, 1), partition("low", 0), partition("high", 1))
    here.publish(node, *parts, name=here.named("d"), slices=2)
    here.template("whole", here.request(selectors=of_size(here, 2)))
    here.template("any")

    here.user("a", template="whole")
    here.wait_bound(1)
    for name in ("b", "c", "d"):
        here.user(name, template="any")
        here.wait_explained(name, "cannot allocate all claims")
    here.client.delete(here.path("Pod", "a"))

    bound = [one["metadata"]["name"] for one in here.wait_bound(2) if node_of(one)]
    devices = {device for name in bound for device in here.given(name)}
    assert devices == {"parts-1/low", "parts-1/high"}


def test_case_59_a_selector_that_fails_on_a_node_leaves_the_others(
    here: Devices, kwok_node: MakeNode
) -> None:
    """The reason names selector and device; a guarded selector fails nowhere."""
    here.publish(kwok_node("keys-1"), "plain")
    here.publish(kwok_node("keys-2"), sized("sized", 2))
    here.template("two", here.request(selectors=of_size(here, 2)))
    guarded = f"device.attributes['{here.driver}'].?size.orValue(0) == 0"
    here.template("none", here.request(selectors=[{"cel": {"expression": guarded}}]))

    here.user("a", template="two")
    here.wait_bound_to({"keys-2"})
    here.user("b", template="two")
    here.wait_explained("b", f"request gpu: selector #0 on device plain of driver {here.driver}")
    here.user("c", template="none")

    here.wait_bound_to({"keys-1", "keys-2"})
    assert here.given("c") == ["keys-1/plain"]


@pytest.mark.kubernetes("1.36", "DRADeviceTaints is off by default before")
def test_case_59_taint_in_the_slice_repels_claims_without_toleration(
    here: Devices, kwok_node: MakeNode
) -> None:
    taint = {"key": "broken", "effect": "NoSchedule"}
    here.publish(kwok_node("taint-1"), device_json("gpu-0", taints=[taint]), "gpu-1")
    here.template("plain")
    toleration = {"key": "broken", "operator": "Exists"}
    here.template("tolerant", here.request(tolerations=[toleration], count=2))

    here.user("a", template="plain")
    here.wait_bound(1)
    assert here.given("a") == ["taint-1/gpu-1"]
    here.user("b", template="plain")
    here.wait_explained("b", "cannot allocate all claims")
    here.user("c", template="tolerant")
    here.wait_explained("c", "cannot allocate all claims")
    here.client.delete(here.path("Pod", "a"))
    here.client.delete(here.path("Pod", "b"))

    wait_placed(here, "c")
    assert sorted(here.given("c")) == ["taint-1/gpu-0", "taint-1/gpu-1"]


def test_case_60_a_changed_claim_is_written_only_if_it_is_free(
    here: Devices, cp: ControlPlane, kwok_node: MakeNode
) -> None:
    """The API server answers 409 to a write of the version that was decided on."""
    node = kwok_node("conflict-1")
    here.publish(node, "gpu-0", "gpu-1")
    names = ("labelled", "taken")
    for name in names:
        here.claim(name)
    made = here.user("a", *names, scheduler="nothing")
    before = {name: here.client.get(here.claim_path(name)) for name in names}
    labels = {"metadata": {"labels": {"a": "b"}}}
    here.client.patch(here.claim_path("labelled"), labels)
    theirs = allocation_json(result_json("gpu-1", node, driver=here.driver), node=node)
    here.client.patch(here.claim_path("taken"), {"metadata": {"finalizers": [FINALIZER]}})
    here.client.patch(f"{here.claim_path('taken')}/status", {"status": {"allocation": theirs}})
    ours = allocation_json(result_json("gpu-0", node, driver=here.driver), node=node)

    answers = {
        name: asyncio.run(reserved(cp.kubeconfig, made, claim, ours))
        for name, claim in before.items()
    }

    assert not answers["labelled"].problem
    [claim] = answers["labelled"].claims
    assert claim.allocation is not None
    assert [one.device for one in claim.allocation.results] == ["gpu-0"]
    assert claim.is_reserved_for(made["metadata"]["uid"])
    assert "it was allocated by another scheduler in the meantime" in answers["taken"].problem
    assert here.status("taken")["allocation"]["devices"] == theirs["devices"]
    assert here.users("taken") == set()


async def reserved(kubeconfig: Path, pod: Json, claim: Json, allocation: Json) -> ClaimsReserved:
    """What the scheduler's writer says of one claim that it saw like this."""
    meta = pod["metadata"]
    wanted = read_claim(json.dumps({**claim, "status": {"allocation": allocation}}).encode())
    assert wanted.allocation is not None
    one = ReserveClaim(
        *(wanted.namespace, wanted.name, wanted.uid, wanted.version, wanted.allocation)
    )
    heard = Heard()
    client = await Client.connect(str(kubeconfig), "tests")
    writer = ClaimWriter(client, heard, Leader(epoch=TERM), read_claim)
    working = asyncio.create_task(writer.run())
    try:
        writer.send(ReserveClaims(meta["uid"], meta["name"], 1, (one,)))
        answer: ClaimsReserved = await heard.next()
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await client.close()
    return answer
