"""Pods with ResourceClaims, and extended resources that DRA serves, in the simulator."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.dra import (
    CLASS,
    DRIVER,
    allocation_json,
    claim_json,
    claiming,
    class_json,
    device_json,
    request_json,
    result_json,
    rule_json,
    slice_json,
)
from tests.dra_gpus import NVIDIA, PERMUTED, gpu
from tests.unit.gpuctl.cli import GPU, Json, gpuctl, node, places, pod, rows, spec, workload

ONE = request_json()
HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 100,
}


def user(name: str, *claims: str, **fields: Any) -> Json:
    return pod(name, spec(**claiming(*claims), **fields))


def template(name: str = "one", *requests: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(requests) or [ONE]}}},
    }


def claim(name: str = "gpu", *requests: Json, **more: Any) -> Json:
    found = claim_json(name, *requests, namespace="default", **more)
    return {**found, "metadata": {k: v for k, v in found["metadata"].items() if k != "namespace"}}


def devices(found: list[Json]) -> dict[str, str | None]:
    return {row["pod"]: row["devices"] for row in found}


def waits(found: list[Json], name: str) -> str:
    [reason] = [row["reason"] for row in found if row["pod"] == name and row["node"] is None]
    return str(reason)


def test_each_pod_of_a_template_gets_a_device_of_its_own() -> None:
    world = [node("n1"), node("n2"), slice_json("n1", "a"), slice_json("n2", "b"), class_json()]
    wanted = spec(**claiming(templates={"gpu": "one"}))

    found = rows(*world, template(), workload("StatefulSet", "web", wanted, replicas=3))

    assert sorted(filter(None, devices(found).values())) == ["claim:a", "claim:b"]
    assert "cannot allocate all claims (request gpu; class" in waits(found, "web-2")


def test_pods_share_the_device_of_one_claim() -> None:
    world = [node("n1"), node("n2"), slice_json("n1", "a", "b"), class_json(), claim("shared")]

    found = rows(*world, user("p", "shared"), user("q", "shared"), user("r", "shared"))

    assert set(devices(found).values()) == {"claim:a"}


def test_claims_and_templates_outside_the_input_keep_pods_pending() -> None:
    by_template = pod("t", spec(**claiming(templates={"gpu": "two"})))
    text = yaml.safe_dump_all([node("n1"), slice_json("n1", "a"), user("p", "other"), by_template])

    done = gpuctl("simulate", "-", stdin=text)

    assert 'resourceclaim "other" not found' in done.out
    assert 'pod "default/t": ResourceClaim not created yet' in done.out
    assert "1 ResourceClaimTemplates are not in the input" in done.err
    assert "such as default/two" in done.err


def test_one_spec_runs_by_a_device_plugin_and_by_dra() -> None:
    by_dra = class_json(extendedResourceName=GPU)
    world = [node("n1", gpu=1), node("n2"), slice_json("n2", "a"), by_dra]

    found = rows(*world, *(pod(name, spec(GPU)) for name in "pqr"))

    placed = {row["node"]: row["devices"] for row in found if row["node"]}
    assert placed == {"n1": "gpu x 1", "n2": "gpu x 1; claim:a"}
    assert "Insufficient nvidia.com/gpu (need 1; best node has 0 free)" in waits(found, "r")


def test_a_map_gives_the_devices_of_its_line_on_a_dra_node() -> None:
    discovered = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    gpus = [gpu(minor, bus) for minor, bus in enumerate(PERMUTED)]
    by_dra = class_json(NVIDIA, f"device.driver == '{NVIDIA}'", extendedResourceName=GPU)
    world = [node("n1", labels=discovered), slice_json("n1", *gpus, driver=NVIDIA), by_dra]

    found = rows(*world, pod("p-0", spec(), annotations={"gpu-scheduling-map": "0=n1:0,1"}))

    [row] = found
    assert (row["node"], row["granted"]) == ("n1", {GPU: 2})
    assert row["devices"].endswith("claim:gpu-2,gpu-3")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        pytest.param(None, "claim:a", id="free"),
        pytest.param(allocation_json(result_json("a")), "claim:b", id="in-use"),
    ],
)
def test_allocations_of_the_input_count(status: Json | None, text: str) -> None:
    other = claim("other", allocation=status)
    world = [node("n1"), slice_json("n1", "a", "b"), class_json(), other, claim("mine")]

    assert devices(rows(*world, user("p", "mine"))) == {"p": text}


def test_pods_and_claims_of_a_cluster_are_read_as_kubectl_writes_them() -> None:
    """The claim of a running pod from a template, and a pending pod whose claim exists."""
    held = claim("one-gpu", owner="u1", allocation=allocation_json(result_json("a")))
    waiting = claim("two-gpu", owner="u2")
    running = pod("one", spec(nodeName="n1", **claiming(templates={"gpu": "t"})), uid="u1")
    pending = pod("two", spec(**claiming(templates={"gpu": "t"})), uid="u2")
    for user_of, name in ((running, "one-gpu"), (pending, "two-gpu")):
        user_of["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}
    items = [node("n1"), slice_json("n1", "a", "b"), class_json(), held, waiting, running, pending]

    found = rows({"apiVersion": "v1", "kind": "List", "items": items})

    assert devices(found) == {"two": "claim:b"}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_device_taint_rules_keep_claims_away(version: str) -> None:
    rule = {
        **rule_json(driver=DRIVER, device="a"),
        "apiVersion": f"resource.k8s.io/{version}",
    }
    world = [node("n1"), slice_json("n1", "a", "b"), class_json(), claim("mine")]

    found = rows(*world, rule, user("p", "mine"))

    assert devices(found) == {"p": "claim:b"}


def test_the_end_of_a_preempted_pod_frees_its_devices() -> None:
    small = node("n1")
    small["status"]["allocatable"]["cpu"] = "1"
    world = [small, slice_json("n1", "a"), class_json(), template(), claim("mine"), HIGH]
    first = pod("first", spec("cpu", **claiming(templates={"gpu": "one"})))
    second = pod("second", spec("cpu", priorityClassName="high"))

    found = rows(*world, first, second, user("third", "mine"))

    assert devices(found) == {"first": None, "second": None, "third": "claim:a"}
    assert places(found)["second"] == "n1"


def test_a_pod_is_preempted_for_its_device() -> None:
    world = [node("n1"), slice_json("n1", "a"), class_json(), template(), HIGH]
    by_template = claiming(templates={"gpu": "one"})
    low, high = spec(**by_template), spec(priorityClassName="high", **by_template)

    found = rows(*world, pod("low", low), pod("high", high), pod("next", low))

    assert devices(found) == {"low": None, "high": "claim:a", "next": None}
    assert waits(found, "low") == "preempted on node n1 by default/high (priority 100)"


def test_a_shared_claim_of_a_preempted_pod_stays_with_the_others() -> None:
    small = node("n1")
    small["status"]["allocatable"]["cpu"] = "1"
    world = [small, slice_json("n1", "a"), class_json(), claim("shared"), claim("mine"), HIGH]
    first = pod("first", spec("cpu", **claiming("shared")))
    second = pod("second", spec("cpu", priorityClassName="high"))

    found = rows(*world, first, user("other", "shared"), second, user("third", "mine"))

    assert places(found) == {"first": None, "second": "n1", "other": "n1", "third": None}


def test_an_allocation_that_no_node_can_use_is_given_up() -> None:
    gone = allocation_json(result_json("a", "n9"), node="n9")
    world = [node("n1"), slice_json("n1", "b"), class_json(), claim("mine", allocation=gone)]

    assert devices(rows(*world, user("p", "mine"))) == {"p": "claim:b"}


def test_a_pod_that_waits_for_its_devices_has_a_node_and_says_so() -> None:
    fabric = device_json("a", bindingConditions=["attached"], bindingFailureConditions=["detached"])
    world = [node("n1"), slice_json("n1", fabric), class_json(), claim("mine")]

    [row] = rows(*world, user("p", "mine"))

    assert row["node"] == "n1"
    assert row["reason"] == f"its Binding waits for condition attached of device {DRIVER}/n1/a"


def test_a_pod_of_another_scheduler_holds_its_devices() -> None:
    world = [node("n1"), slice_json("n1", "a", "b"), class_json(), claim("mine"), claim("yours")]
    foreign = user("f", "yours", schedulerName="default-scheduler")

    found = rows(*world, foreign, user("p", "mine"))

    assert devices(found) == {"f": "claim:a", "p": "claim:b"}


def test_devices_are_counted_and_drawn_with_their_holders() -> None:
    world = [node("n1"), slice_json("n1", "a", "b"), class_json(), claim("mine")]
    text = yaml.safe_dump_all([*world, user("p", "mine")])

    table = gpuctl("simulate", "-", stdin=text).out.splitlines()
    picture = gpuctl("simulate", "-o", "picture", "-", stdin=text).out.splitlines()

    assert f"n1    {DRIVER}  1 of 2" in table
    assert picture == [
        f"n1: devices of {DRIVER}",
        "  [a      ][b      ]",
        "  [p      ][       ]",
    ]


def test_a_partition_without_counters_is_not_drawn() -> None:
    counters = {"counters": {"memory": {"value": "2"}}, "name": "card"}
    shared = slice_json("n1", name="sets", slices=2, nodeName="n1", sharedCounters=[counters])
    parts = [
        device_json(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": used}}])
        for name, used in (("whole", {"value": "2"}), ("left", {"value": "1"}))
    ]
    whole = request_json(selectors=[{"cel": {"expression": "device.driver != ''"}}])
    world = [node("n1"), shared, slice_json("n1", *parts, slices=2), class_json()]
    held = claim("mine", whole, allocation=allocation_json(result_json("whole")))

    text = yaml.safe_dump_all([*world, held])
    picture = gpuctl("simulate", "-o", "picture", "-", stdin=text).out.splitlines()

    assert picture[1:] == ["  [whole  ]", "  [mine   ]"]


NO_NODE = slice_json("n1", "a")
NO_COUNT = slice_json("n1", "a")
OLD = {**template(), "apiVersion": "resource.k8s.io/v1beta1"}
del NO_NODE["spec"]["nodeName"], NO_COUNT["spec"]["pool"]["resourceSliceCount"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(NO_NODE, "spec.nodeName: is missing; write nodeName, or", id="no-node"),
        pytest.param(NO_COUNT, "spec.pool.resourceSliceCount: is missing; write", id="no-count"),
        pytest.param(
            slice_json("n1", device_json("a", capacity={"memory": {"value": "much"}})),
            "object: cannot be read: 'much' is not a quantity",
            id="bad-quantity",
        ),
        pytest.param(
            slice_json("n1", device_json("a", attributes={"x": {"int": "1"}})),
            "spec.devices[0].attributes[...].int: expected a number, found a text",
            id="bad-type",
        ),
        pytest.param(
            class_json(CLASS, "device.driver =="),
            "spec.selectors[0].cel.expression: cannot be compiled:",
            id="bad-selector",
        ),
        pytest.param(
            template("t", {"name": "gpu", "deviceClassName": CLASS}),
            "spec.spec.devices.requests[0]: has neither exactly nor firstAvailable; write",
            id="request-of-v1beta1",
        ),
        pytest.param(
            claim("c", {"name": "gpu", "firstAvailable": [{"name": "a"}]}),
            "spec.devices.requests[0].firstAvailable[0].deviceClassName: is missing",
            id="no-class",
        ),
        pytest.param(
            rule_json(deviceClassName=CLASS),
            "object: cannot be read: deviceSelector: deviceClassName and selectors are not read",
            id="rule-by-class",
        ),
        pytest.param(
            {**template(), "spec": {"spec": 3}},
            "spec.spec: expected an object, found a number",
            id="template-without-a-spec",
        ),
        pytest.param(
            {**claim(), "metadata": {"name": "gpu", "uid": 3}},
            "metadata.uid: expected a text, found a number; put it in quotes",
            id="number-for-a-uid",
        ),
        pytest.param(
            {**claim(), "metadata": {"name": "", "generateName": "gpu-"}},
            "metadata.name: is missing; give the object a name",
            id="no-name",
        ),
        pytest.param(OLD, "apiVersion: resource.k8s.io/v1beta1 is not read; write", id="version"),
    ],
)
def test_an_object_that_cannot_be_used_is_an_error_in_one_line(body: Json, text: str) -> None:
    done = gpuctl("simulate", "-", stdin=yaml.safe_dump(body))

    name = body["metadata"]["name"] or body["metadata"]["generateName"]
    assert done.status == 1
    assert f"stdin: document 1 ({body['kind']} {name}): {text}" in done.err
    assert len(done.err.splitlines()) == 1
