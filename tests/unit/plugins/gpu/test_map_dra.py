"""Maps on nodes whose GPUs are DRA devices: the claims get exactly the devices of the line."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.decision import AllocateClaims, PendingPlacement
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.plugins import REASON_CODES, default_pipeline
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import (
    GPU,
    PodFields,
    cluster,
    codes,
    container,
    downward,
    literal,
    node,
    placed,
    pod,
    settle,
)
from tests.dra import claiming, device_class, device_json, resource_slice, taint_rule
from tests.dra_gpus import (
    DISCOVERED,
    EVERY_GPU,
    NAMES,
    NVIDIA,
    PERMUTED,
    claim,
    devices_of,
    given,
    gpu,
    named,
    on_dra,
    said,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("0,1", (0, 1), id="the-first-two"),
        pytest.param("3,0", (3, 0), id="in-the-order-of-the-line"),
        pytest.param("2", (2,), id="one"),
        pytest.param("0,1,2,3", (0, 1, 2, 3), id="all"),
    ],
)
def test_a_request_gets_exactly_the_devices_of_the_line(
    line: str, expected: tuple[int, ...]
) -> None:
    found = placed(cluster(*on_dra()), pod("w-0", gpus=len(expected), map=f"0=n1:{line}"))

    assert devices_of(found) == named(*expected)
    assert found.devices == Devices(numbers=expected, claimed=tuple(named(*expected)))
    assert isinstance(found, PendingPlacement)
    assert [type(step) for step in found.steps] == [AllocateClaims]
    assert (found.cuda_visible_devices, found.notes) == (None, ())


def test_containers_get_shares_of_the_line_in_declaration_order() -> None:
    """An init container that ends uses the devices of later containers and the rest of the line."""
    duo = pod(
        "duo-0",
        map="0=n1:3,1,2",
        init=[container("prep", gpus=3)],
        containers=[container("serve", gpus=1), container("log"), container("train", gpus=1)],
    )
    found = placed(cluster(*on_dra()), duo)

    assert found.claims is not None
    assert found.claims.extended is not None
    got = {one.request: one.device for one in found.claims.extended.allocation.results}
    assert got == {
        "container-1-request-0": NAMES[3],
        "container-3-request-0": NAMES[1],
        "container-0-request-0": NAMES[2],
    }


def test_more_than_ten_containers_get_their_shares_by_number() -> None:
    """The names of requests are sorted as texts."""
    many = [container(f"c{at}", gpus=int(at in (2, 10))) for at in range(11)]
    found = placed(cluster(*on_dra()), pod("w-0", map="0=n1:3,0", containers=many))

    assert found.claims is not None
    assert found.claims.extended is not None
    got = {one.request: one.device for one in found.claims.extended.allocation.results}
    assert got == {"container-2-request-0": NAMES[3], "container-10-request-0": NAMES[0]}


REFUSED: list[Any] = [
    pytest.param({"gpus": 1, "map": "0=n1:4"}, "without GPU 4 (the node has 4)", id="beyond"),
    pytest.param(
        {"map": "0=n1:0,1"},
        "1 node(s) whose GPUs are DRA devices give none to a pod that requests none; request"
        " nvidia.com/gpu: 2",
        id="without-a-request",
    ),
    pytest.param(
        {"gpus": 1, "map": "0=n1:0,1"},
        "the containers request 1 GPUs and line 0 of gpu-scheduling-map gives 2",
        id="another-count",
    ),
]


#: Pods that get no device although they have an entry for some.
EMPTY: dict[str, PodFields] = {
    "request-for-none": {"requests": {GPU: 0}},
    "request-for-none-of-a-class": {"requests": {f"{well_known.DRA_PREFIX}{NVIDIA}": 0}},
    "entry-without-a-claim": {
        "spec": claiming(templates={"a": "none"}),
        "status": {"resourceClaimStatuses": [{"name": "a"}]},
    },
}


@pytest.mark.parametrize("fields", EMPTY.values(), ids=EMPTY)
def test_pod_without_a_request_waits_with_the_needed_request(
    fields: PodFields,
) -> None:
    fields = {**fields, "map": "0=n1:0,1"}

    assert "to a pod that requests none; request nvidia.com/gpu: 2" in said(
        cluster(*on_dra()), pod("w-0", **fields)
    )


def test_pod_created_before_the_slices_of_its_node_needs_the_request() -> None:
    """The webhook added none, because no driver had published the GPUs."""
    labelled, slices, *classes = on_dra()
    early = pod("w-0", map="0=n1:0,1")
    state = cluster(labelled, *classes)
    fold(state, ev.PodUpdated(early))

    fold(state, ev.DraUpdated(slices))

    assert "request nvidia.com/gpu: 2" in said(state, early)


@pytest.mark.parametrize(("fields", "text"), REFUSED)
def test_what_a_line_cannot_give_is_refused_with_numbers(fields: PodFields, text: str) -> None:
    assert text in said(cluster(*on_dra()), pod("w-0", **fields))


def test_a_card_in_partitions_is_no_whole_gpu() -> None:
    attributes = {
        "type": {"string": "mig"},
        "profile": {"string": "1g.10gb"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"},
    }
    part = device_json("gpu-4-mig-1g10gb-19-0", attributes=attributes)
    state = cluster(*on_dra("n1", part))

    assert "whose GPU 0 has MIG instances" in said(state, pod("w-0", gpus=1, map="0=n1:0"))
    assert devices_of(placed(state, pod("w-0", gpus=1, map="0=n1:1"))) == ["gpu-2"]


def test_a_device_in_use_is_refused_with_its_holder() -> None:
    """Sharing by owner needs a shared claim here: siblings do not share by their lines."""
    theirs = claim("theirs", allocation=given(NAMES[0]), users=["w-9"])
    state = cluster(*on_dra(), theirs)
    mapped = pod("w-0", gpus=1, map="0=n1:0")

    assert said(state, mapped) == (
        "0/1 nodes are available: 1 node(s) where GPU 0 is held by claim theirs of pod w-9."
    )
    assert codes(state, mapped) == {REASON_CODES["DEVICE_HELD"]}
    assert "GPU 0 is held by a claim in namespace team." in said(
        state, pod("w-0", gpus=1, map="0=n1:0", namespace="other")
    )
    changes = fold(state, ev.DraDeleted(type(theirs), theirs.key))
    assert any(isinstance(one, ev.ClusterEvent) for one in changes)
    assert devices_of(placed(state, mapped)) == named(0)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        pytest.param("1", "1 node(s) where GPU 1 is held by claim c1 of pod w-1.", id="in-use"),
        pytest.param("4", "1 node(s) without GPU 4 (the node has 4).", id="beyond"),
        pytest.param("0,2", "1 node(s) where GPU 0 is held by claim c0 of pod w-0.", id="two"),
    ],
)
def test_on_a_full_node_the_device_of_the_line_is_named(line: str, text: str) -> None:
    """That no GPU is free says nothing about the one that the pod waits for."""
    used = [claim(f"c{n}", allocation=given(NAMES[n]), users=[f"w-{n}"]) for n in range(4)]
    state = cluster(*on_dra(), *used)
    mapped = pod("w-9", gpus=len(line.split(",")), map=f"9=n1:{line}")

    assert said(state, mapped) == f"0/1 nodes are available: {text}"


def test_a_full_node_names_what_else_is_insufficient() -> None:
    used = [claim(f"c{n}", allocation=given(NAMES[n]), users=[f"w-{n}"]) for n in range(4)]
    state = cluster(*on_dra(), *used)
    mapped = pod("w-9", gpus=1, requests={"cpu": 10**9}, map="9=n1:1")

    text = said(state, mapped)

    assert "Insufficient cpu" in text
    assert "GPU 1 is held by claim c1 of pod w-1" in text
    assert f"Insufficient {GPU}" not in text


def test_siblings_do_not_share_a_device_without_a_claim() -> None:
    state = cluster(*on_dra())
    settle(state, pod("w-0", gpus=1, map="0=n1:0\n1=n1:0"))

    assert "GPU 0 is held by a claim that is being created" in said(
        state, pod("w-1", gpus=1, map="0=n1:0\n1=n1:0")
    )


def test_a_partition_in_use_holds_its_whole_gpu() -> None:
    """On a card that is offered as a whole and in parts."""
    counters = [{"name": "c", "counters": {"slices": {"value": "7"}}}]

    def uses(count: int) -> list[Any]:
        return [{"counterSet": "c", "counters": {"slices": {"value": str(count)}}}]

    part = device_json(
        "gpu-0-mig-1g10gb-19-0",
        attributes={
            "type": {"string": "mig"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:07:00.0"},
        },
        consumesCounters=uses(1),
    )
    whole = gpu(0, "0000:07:00.0", consumesCounters=uses(7))
    state = cluster(
        node(labels=DISCOVERED),
        resource_slice("n1", name="c", driver=NVIDIA, slices=2, sharedCounters=counters,
                       nodeName="n1"),
        resource_slice("n1", whole, part, driver=NVIDIA, slices=2),
        EVERY_GPU,
        claim("theirs", allocation=given("gpu-0-mig-1g10gb-19-0")),
    )  # fmt: skip

    # The request alone is more than what is free, so the test asks with a claim.
    mapped = pod("w-0", map="0=n1:0", spec=claiming("mine"))
    fold(state, ev.DraUpdated(claim("mine")))
    assert said(state, mapped) == (
        "0/1 nodes are available: 1 node(s) where GPU 0 is held by claim theirs (device"
        " gpu-0-mig-1g10gb-19-0)."
    )


def test_a_tainted_device_is_refused_with_its_taint() -> None:
    state = cluster(*on_dra(), taint_rule(driver=NVIDIA, device=NAMES[1]))
    mapped = pod("w-0", gpus=1, map="0=n1:1")

    assert said(state, mapped) == (
        "0/1 nodes are available: 1 node(s) whose GPU 1 has the taint broken:NoSchedule."
    )
    assert codes(state, mapped) == {REASON_CODES["DEVICE_FAILED"]}
    assert devices_of(placed(state, pod("w-0", gpus=1, map="0=n1:0"))) == named(0)


def test_pods_without_a_map_use_what_is_left() -> None:
    """A mapped pod on the node does not keep packed pods away: both hold claims."""
    state = cluster(*on_dra())
    settle(state, pod("w-0", gpus=2, map="0=n1:0,2"))
    fold(state, ev.DraUpdated(claim("own")))
    settle(state, pod("v-0", map="0=n1:1", spec=claiming("own")))

    packed = settle(state, pod("p", gpus=1))

    assert devices_of(packed) == named(3)
    assert codes(state, pod("q", gpus=1)) == {REASON_CODES["INSUFFICIENT"]}


def test_pod_mapped_before_the_driver_came_keeps_others_away() -> None:
    """It holds a GPU without a claim."""
    former = pod("w-0", map="0=n1:0", node="n1", annotations={well_known.DEVICES: "gpu:0"})
    state = cluster(*on_dra(), former)

    assert codes(state, pod("p", gpus=1)) == {REASON_CODES["KUBELET_ASSIGNS_DEVICES"]}


def test_interchangeable_pod_gets_the_first_line_with_free_devices() -> None:
    theirs = claim("theirs", allocation=given(NAMES[0]))
    state = cluster(*on_dra(), theirs)
    mapped = pod("x", owner="ReplicaSet/rs", gpus=1, map="0=n1:0\n1=n1:3")

    found = placed(state, mapped)

    assert (found.index, devices_of(found)) == (1, named(3))


def test_devices_of_another_driver_need_a_configured_attribute() -> None:
    other = resource_slice(
        "n1",
        device_json("a", attributes={"slot": {"int": 1}}),
        device_json("b", attributes={"slot": {"int": 0}}),
    )
    by_name = device_class("c", "device.driver == 'gpu.example.com'", extendedResourceName=GPU)
    mapped = pod("w-0", gpus=1, map="0=n1:0")

    unknown = cluster(node(), other, by_name)
    assert said(unknown, mapped) == (
        "0/1 nodes are available: 1 node(s) whose DRA devices have no index (no attribute with the"
        " index of its devices is configured)."
    )
    known = Cluster(maps_allow="all", index_attributes={"gpu.example.com": "slot"})
    known.upsert_node(node())
    for one in (other, by_name):
        fold(known, ev.DraUpdated(one))
    assert devices_of(placed(known, mapped)) == ["b"]


def test_indexes_are_unknown_while_the_driver_writes_its_slices() -> None:
    state = cluster(*on_dra())
    fold(state, ev.DraUpdated(resource_slice("n1", gpu(0, PERMUTED[0]), driver=NVIDIA, slices=2)))

    assert "(pool gpu.nvidia.com/n1 is being updated)" in said(state, pod("w-0", map="0=n1:0"))


def test_on_a_node_with_a_device_plugin_the_kubelet_assigns_as_before() -> None:
    state = cluster(*on_dra(), node(gpus=4, labels=DISCOVERED))
    found = placed(state, pod("w-0", gpus=1, map="0=n1:0"))

    assert (found.claims, found.devices) == (None, Devices((), (("gpu", 1),)))


ENVIRONMENT: list[Any] = [
    pytest.param([], {}, None, id="nothing-is-injected"),
    pytest.param([literal("2,3")], {}, None, id="a-literal-is-left-to-its-author"),
    pytest.param([downward()], {}, "0,1", id="an-entry-that-reads-the-annotation"),
    pytest.param([downward()], {well_known.CUDA_MODE: "index"}, "3,1", id="mode-index"),
]


@pytest.mark.parametrize(("env", "annotations", "value"), ENVIRONMENT)
def test_a_container_counts_the_devices_of_its_claim_from_zero(
    env: list[Any], annotations: dict[str, str], value: str | None
) -> None:
    pipeline = default_pipeline(Settings(maps_allow="all", expects_webhook=True))
    mapped = pod(
        "w-0", map="0=n1:3,1", annotations=annotations, containers=[container(gpus=2, env=env)]
    )
    found = placed(cluster(*on_dra()), mapped, pipeline)

    assert found.cuda_visible_devices == value
    assert [reason for reason, _ in found.notes] == (
        ["EnvironmentMayHideGpus"] if annotations else []
    )


def test_a_profile_in_the_map_of_a_node_is_honoured_by_the_node_only() -> None:
    """As on other nodes: a request for a MIG profile names no whole GPU."""
    attributes = {
        "type": {"string": "mig"},
        "profile": {"string": "1g.10gb"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"},
    }
    part = device_json("gpu-4-mig-1g10gb-19-0", attributes=attributes)
    offered = device_class(
        "mig-1g.10gb",
        f"device.attributes['{NVIDIA}'].?profile.orValue('') == '1g.10gb'",
        extendedResourceName="nvidia.com/mig-1g.10gb",
    )
    state = cluster(*on_dra("n1", part), offered)

    found = placed(state, pod("w-0", mig={"1g.10gb": 1}, map="0=n1:2"))

    assert devices_of(found) == ["gpu-4-mig-1g10gb-19-0"]
    assert (found.devices.numbers, found.devices.counts) == ((), (("1g.10gb", 1),))
    assert found.notes == (
        (
            "MapHonouredNodeOnly",
            "gpu-scheduling-map chose the node; which GPU is that of the pod's ResourceClaim",
        ),
    )
