"""Objects of ``resource.k8s.io`` that cannot be read, and the claims that a pod names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.dra.claim import (
    ResourceClaim,
)
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.dra.pod_claims import NO_CLAIMS, PodClaim, PodClaims
from scheduler.model.dra.resource_slice import DeviceTaintRule, ResourceSlice
from scheduler.model.limits import (
    CLAIM_CONSUMERS_MAX,
    CLAIM_ITEMS_MAX,
    DEVICE_CONFIG_LENGTH_MAX,
    DEVICE_ITEMS_MAX,
    POD_CLAIMS_MAX,
    SLICE_COUNTER_SETS_MAX,
    SLICE_DEVICES_MAX,
)
from scheduler.state import event as ev
from scheduler.watch.decode.dra.claims import CLAIMS
from scheduler.watch.decode.dra.classes import CLASSES
from scheduler.watch.decode.dra.slices import RULES, SLICES
from scheduler.watch.decode.objects import read_pod
from tests.builders import pod
from tests.dra import (
    DRIVER,
    allocation_json,
    claim_json,
    claiming,
    class_json,
    consumer_json,
    device_json,
    request_json,
    resource_slice,
    result_json,
    rule_json,
    slice_json,
)


def read_claim(body: Any) -> ResourceClaim:
    event = CLAIMS.event(msgspec.json.encode(body), False)
    assert isinstance(event, ev.DraUpdated)
    assert isinstance(event.item, ResourceClaim)
    return event.item


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"devices": 7}, id="wrong-type"),
        pytest.param({"devices": {"constraints": [{}] * (CLAIM_ITEMS_MAX + 1)}}, id="too-many"),
        pytest.param(
            {"devices": {"requests": [request_json(capacity={"requests": {"a": "x"}})]}},
            id="quantity",
        ),
        pytest.param(
            {
                "devices": {
                    "config": [
                        {
                            "opaque": {
                                "driver": "d",
                                "parameters": {"a": "x" * DEVICE_CONFIG_LENGTH_MAX},
                            }
                        }
                    ]
                }
            },
            id="too-long",
        ),
    ],
)
def test_an_unreadable_claim_keeps_its_devices_and_users(spec: Any) -> None:
    body = claim_json(allocation=allocation_json(result_json()), users=["p"])

    found = read_claim({**body, "spec": spec})

    assert found.unread
    assert found.allocation == read_claim(body).allocation
    assert found.is_reserved_for("team-p")
    assert (found.key, found.uid, found.version) == ("team/gpu", "uid-gpu", "1")


def test_claim_with_endlessly_nested_configuration_keeps_its_devices() -> None:
    """Users write the configuration, and it must not free the devices of others."""
    opaque = {"driver": DRIVER, "parameters": "deep"}
    body = claim_json(
        allocation=allocation_json(result_json()), users=["p"], config=[{"opaque": opaque}]
    )
    deep = b"[" * 4_500 + b"]" * 4_500

    event = CLAIMS.event(msgspec.json.encode(body).replace(b'"deep"', deep), False)

    assert isinstance(event, ev.DraUpdated)
    assert isinstance(event.item, ResourceClaim)
    assert event.item.unread
    assert event.item.uid == "uid-gpu"
    assert event.item.allocation == read_claim(body).allocation


def test_devices_of_an_unreadable_allocation_are_in_use() -> None:
    """What is readable of each result counts as the whole device."""
    results = [
        result_json("gpu-0", consumedCapacity={"a": "x"}),
        result_json("gpu-1", tolerations=7),
        {"driver": 7},
    ]

    found = read_claim(claim_json(allocation=allocation_json(*results), users=["p"]))

    assert found.unread
    assert found.allocation is not None
    assert [one.device for one in found.allocation.results] == ["gpu-0", "gpu-1"]


def test_more_consumers_than_the_limit_make_a_claim_unreadable() -> None:
    users = [f"p{number}" for number in range(CLAIM_CONSUMERS_MAX + 1)]

    found = read_claim(claim_json(allocation=allocation_json(result_json()), users=users))

    assert "reservedFor" in found.unread
    assert len(found.reserved_for) == CLAIM_CONSUMERS_MAX
    assert consumer_json("p0")["uid"] == found.reserved_for[0].uid


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"devices": ["gpu"] * (SLICE_DEVICES_MAX + 1)}, id="devices"),
        pytest.param(
            {"sharedCounters": [{"name": "x"}] * (SLICE_COUNTER_SETS_MAX + 1)}, id="counter-sets"
        ),
        pytest.param(
            {"devices": [device_json("g", taints=[{"key": "k"}] * (DEVICE_ITEMS_MAX + 1))]},
            id="taints",
        ),
        pytest.param(
            {"devices": [device_json("g", capacity={"memory": {"value": "x"}})]}, id="quantity"
        ),
        pytest.param({"devices": [{"attributes": {}}]}, id="a-device-without-a-name"),
    ],
)
def test_an_unreadable_slice_names_its_pool(changes: Any) -> None:
    body = slice_json("n1", "gpu-0", generation=3, name="s")

    event = SLICES.event(msgspec.json.encode({**body, "spec": {**body["spec"], **changes}}), False)

    assert isinstance(event, ev.DraUpdated)
    assert isinstance(event.item, ResourceSlice)
    assert event.item.unread
    found = msgspec.structs.replace(event.item, unread="")
    assert found == ResourceSlice(name="s", driver=DRIVER, pool="n1", generation=3)


def test_an_unreadable_class_is_kept_with_the_problem() -> None:
    body = class_json("c", config=[{"opaque": 7}])

    event = CLASSES.event(msgspec.json.encode(body), False)

    assert isinstance(event, ev.DraUpdated)
    assert isinstance(event.item, DeviceClass)
    assert event.item.name == "c"
    assert "config" in event.item.unread


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param({"deviceClassName": "gpu", "driver": DRIVER}, id="class"),
        pytest.param({"selectors": [{"cel": {"expression": "true"}}]}, id="cel"),
    ],
)
def test_a_taint_rule_by_class_or_cel_is_kept_and_selects_nothing(selector: Any) -> None:
    """Kubernetes 1.33 and 1.34 have these fields in v1alpha3."""
    event = RULES.event(msgspec.json.encode(rule_json(**selector)), False)

    assert isinstance(event, ev.DraUpdated)
    assert isinstance(event.item, DeviceTaintRule)
    assert event.item.unread == "deviceSelector: deviceClassName and selectors are not read"
    assert not event.item.selects(resource_slice("n1", "a").devices[0])


def test_a_list_and_a_deletion_are_events_of_their_kind() -> None:
    raw = msgspec.Raw(msgspec.json.encode(slice_json("n1", "gpu-0", name="s")))

    assert SLICES.listed([raw]) == ev.DraReplaced(
        ResourceSlice, (resource_slice("n1", "gpu-0", name="s"),)
    )
    assert SLICES.event(bytes(raw), True) == ev.DraDeleted(ResourceSlice, "s")
    body = msgspec.json.encode(claim_json("c"))
    assert CLAIMS.event(body, True) == ev.DraDeleted(ResourceClaim, "team/c")


# --- pods ------------------------------------------------------------------------------------


def test_the_claims_of_a_pod_are_read() -> None:
    spec = claiming("shared", templates={"made": "t", "later": "t", "none": "t"})
    statuses = [{"name": "made", "resourceClaimName": "p-made-x"}, {"name": "none"}]
    extended = {"resourceClaimName": "p-extended-resources-x", "requestMappings": []}

    found = pod(
        spec=spec,
        status={"resourceClaimStatuses": statuses, "extendedResourceClaimStatus": extended},
    )

    assert found.resource_claims == PodClaims(
        (
            PodClaim("shared", claim_name="shared"),
            PodClaim("made", template_name="t", has_status=True, created_name="p-made-x"),
            PodClaim("later", template_name="t"),
            PodClaim("none", template_name="t", has_status=True),
        ),
        "p-extended-resources-x",
    )
    assert not found.is_plain
    assert found.unsupported == ()


def test_a_pod_without_claims_is_plain() -> None:
    assert pod().resource_claims is NO_CLAIMS
    assert pod().is_plain


def test_a_created_claim_is_news_for_a_decision() -> None:
    spec = claiming(templates={"gpu": "t"})
    created = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]}

    assert pod(spec=spec).decision_inputs() != pod(spec=spec, status=created).decision_inputs()


def test_a_pod_with_too_many_claims_is_unreadable() -> None:
    spec = claiming(*(f"c{number}" for number in range(POD_CLAIMS_MAX + 1)))
    body = {"metadata": {"name": "p", "namespace": "team", "uid": "u"}, "spec": spec}

    assert "resourceClaims" in read_pod(msgspec.json.encode(body)).problem
