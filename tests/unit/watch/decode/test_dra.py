"""Objects of ``resource.k8s.io`` as they arrive, what is read of them, and what cannot be read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.dra.allocation import FROM_CLASS, AllocatedConfig, Allocation, DeviceResult
from scheduler.model.dra.amount import ONE
from scheduler.model.dra.claim import (
    ClaimConfig,
    ClaimConsumer,
    Constraint,
    DeviceStatus,
    ExactRequest,
)
from scheduler.model.dra.device import (
    Capacity,
    CounterUse,
    DeviceId,
    DeviceTaint,
    DeviceToleration,
    NodeChoice,
    RequestPolicy,
    ValidRange,
    Version,
)
from scheduler.model.dra.device_class import DeviceClass, OpaqueConfig
from scheduler.model.dra.resource_slice import CounterSet, DeviceTaintRule
from scheduler.model.selector import Requirement, Term
from scheduler.state import event as ev
from scheduler.watch.decode.dra.slices import RULES
from tests.dra import (
    DRIVER,
    allocation_json,
    device_class,
    device_json,
    request_json,
    resource_claim,
    resource_slice,
    result_json,
    rule_json,
    taint_rule,
)

TERM = Term(match_fields=(Requirement("metadata.name", "In", ("n1",)),))


def test_a_slice_is_read_with_its_pool_and_devices() -> None:
    found = resource_slice("n1", "gpu-0", "gpu-1", generation=3, slices=2)

    assert (found.driver, found.pool, found.generation, found.slice_count) == (DRIVER, "n1", 3, 2)
    assert found.nodes == NodeChoice(node_name="n1")
    assert [str(one.id) for one in found.devices] == [f"{DRIVER}/n1/gpu-0", f"{DRIVER}/n1/gpu-1"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param({"int": 7}, 7, id="int"),
        pytest.param({"int": 0}, 0, id="zero"),
        pytest.param({"bool": False}, False, id="bool"),
        pytest.param({"string": ""}, "", id="string"),
        pytest.param({"version": "1.2.3"}, Version("1.2.3"), id="version"),
        pytest.param({"ints": [1, 2]}, (1, 2), id="ints"),
        pytest.param({"bools": [True]}, (True,), id="bools"),
        pytest.param({"strings": ["a", "b"]}, ("a", "b"), id="strings"),
        pytest.param({"versions": ["1.0.0"]}, (Version("1.0.0"),), id="versions"),
        pytest.param({"duration": "7s"}, None, id="a-type-of-a-later-kubernetes"),
    ],
)
def test_each_type_of_attribute_is_read(written: Any, read: Any) -> None:
    [device] = resource_slice("n1", device_json("gpu-0", attributes={"a": written})).devices

    assert device.attributes == ({} if read is None else {"a": read})
    assert type(device.attributes.get("a")) is type(read)


def test_device_counters_capacities_taints_and_conditions_are_read() -> None:
    counters = {"memory": {"value": "10Gi"}}
    policy = {"default": "1", "validRange": {"min": "1", "step": "500m"}}
    made = device_json(
        "gpu-0",
        capacity={"memory": {"value": "40Gi", "requestPolicy": policy}, "plain": {"value": "2"}},
        consumesCounters=[{"counterSet": "gpu", "counters": counters}],
        taints=[{"key": "xid", "value": "48", "effect": "NoSchedule", "timeAdded": "2026-01-01"}],
        bindsToNode=True,
        bindingConditions=["Ready"],
        bindingFailureConditions=["Failed"],
        allowMultipleAllocations=True,
        nodeSelector={"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name"}]}]},
    )
    shared = [{"name": "gpu", "counters": counters}]

    found = resource_slice("n1", made, sharedCounters=shared, perDeviceNodeSelection=True)

    [device] = found.devices
    assert device.capacities == {
        "memory": Capacity(
            40 * 2**30 * ONE, RequestPolicy(ONE, (), ValidRange(ONE, None, ONE // 2))
        ),
        "plain": Capacity(2 * ONE),
    }
    assert device.consumes == (CounterUse("gpu", {"memory": 10 * 2**30 * ONE}),)
    assert device.taints == (DeviceTaint("xid", "48", "NoSchedule"),)
    assert device.binds_to_node
    assert device.binding_conditions == ("Ready",)
    assert device.binding_failure_conditions == ("Failed",)
    assert device.allow_multiple
    assert device.nodes.terms is not None
    assert found.counter_sets == (CounterSet("gpu", {"memory": 10 * 2**30 * ONE}),)
    assert found.per_device_nodes
    assert not found.nodes


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        pytest.param({}, (None, None, None), id="every-device"),
        pytest.param({"driver": "d"}, ("d", None, None), id="driver"),
        pytest.param({"pool": "p", "device": "x"}, (None, "p", "x"), id="device"),
    ],
)
def test_a_taint_rule_is_read(selector: Any, wanted: tuple[str | None, ...]) -> None:
    driver, pool, device = wanted
    taint = DeviceTaint("broken", effect="NoSchedule")

    assert taint_rule("r", **selector) == DeviceTaintRule(
        name="r", taint=taint, driver=driver, pool=pool, device=device
    )


def test_a_taint_rule_without_a_selector_selects_nothing() -> None:
    body = rule_json("r")
    del body["spec"]["deviceSelector"]

    event = RULES.event(msgspec.json.encode(body), False)

    assert isinstance(event, ev.DraUpdated)
    assert isinstance(event.item, DeviceTaintRule)
    assert event.item.selects_none


def test_a_class_is_read_with_its_configuration_as_written() -> None:
    opaque = {"driver": DRIVER, "parameters": {"b": 1, "a": [2]}}

    found = device_class(
        "c", "true", config=[{"opaque": opaque}], extendedResourceName="example.com/gpu"
    )

    assert found == DeviceClass(
        name="c",
        selectors=("true",),
        config=(OpaqueConfig(DRIVER, '{"b":1,"a":[2]}'),),
        extended_resource="example.com/gpu",
    )


def test_the_spec_of_a_claim_is_read() -> None:
    toleration = {"operator": "Exists", "tolerationSeconds": 5}
    exactly = request_json(
        "big",
        selectors=[{"cel": {"expression": "x"}}],
        count=2,
        adminAccess=True,
        tolerations=[toleration],
        capacity={"requests": {"memory": "1Gi"}},
    )
    choice = {
        "name": "any",
        "firstAvailable": [{"name": "a", "deviceClassName": "c", "allocationMode": "All"}],
    }

    found = resource_claim(
        "c",
        exactly,
        choice,
        owner="team-p",
        constraints=[{"requests": ["big"], "matchAttribute": "d/a"}],
        config=[{"requests": ["big"], "opaque": {"driver": DRIVER, "parameters": {}}}],
    )

    big, several = found.requests
    assert big.exactly == ExactRequest(
        name="big",
        class_name="gpu.example.com",
        selectors=("x",),
        count=2,
        admin_access=True,
        tolerations=(DeviceToleration(operator="Exists", seconds=5),),
        capacity={"memory": 2**30 * ONE},
    )
    assert several.exactly is None
    assert several.first_available == (ExactRequest(name="a", class_name="c", mode="All"),)
    assert found.constraints == (Constraint(("big",), "d/a"),)
    assert found.config == (ClaimConfig(OpaqueConfig(DRIVER, "{}"), ("big",)),)
    assert (found.owner_uid, found.version, found.has_finalizer) == ("team-p", "1", False)
    assert found.allocation is None


def test_the_allocation_of_a_claim_is_read() -> None:
    share: Any = {"shareID": "s", "consumedCapacity": {"memory": "1Gi"}}
    config = {"source": "FromClass", "opaque": {"driver": DRIVER, "parameters": {}}}
    allocation = allocation_json(
        result_json("gpu-0", bindingConditions=["Ready"]),
        result_json("gpu-1", **share),
        allocationTimestamp="2026-01-01T00:00:00Z",
    )
    allocation["devices"]["config"] = [config]
    told = {"driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    ready = {"type": "Ready", "status": "True"}

    found = resource_claim(
        allocation=allocation, users=["p"], devices=[{**told, "conditions": [ready]}]
    )

    plain: Any = {"request": "gpu", "driver": DRIVER, "pool": "n1"}
    assert found.allocation == Allocation(
        results=(
            DeviceResult(**plain, device="gpu-0", binding_conditions=("Ready",)),
            DeviceResult(
                **plain,
                device="gpu-1",
                is_shared=True,
                share_id="s",
                consumed={"memory": 2**30 * ONE},
            ),
        ),
        config=(AllocatedConfig(FROM_CLASS, OpaqueConfig(DRIVER, "{}")),),
        terms=(TERM,),
        timestamp="2026-01-01T00:00:00Z",
    )
    assert found.reserved_for == (ClaimConsumer("team-p", "p"),)
    device = DeviceId(DRIVER, "n1", "gpu-0")
    assert found.devices == (DeviceStatus(device, conditions={"Ready": "True"}),)
    assert found.has_finalizer
