"""How a map's devices reach the hardware and the containers' environment."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.model.node import Node
from scheduler.model.reasons.reason import ReasonCode
from scheduler.plugins import REASON_CODES
from tests.builders import (
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

FOUR, COUNTED = node(gpus=4, with_gpu_indexes=True), node(gpus=4)

KINDS: list[Any] = [
    pytest.param(node(), {}, Devices((0, 1)), "0,1", id="a-past-any-plugin"),
    pytest.param(FOUR, {"gpus": 2}, Devices((0, 1)), "0,1", id="c-our-plugin"),
    pytest.param(COUNTED, {"gpus": 2}, Devices((), (("gpu", 2),)), None, id="b-vendor-plugin"),
    pytest.param(COUNTED, {}, Devices((0, 1)), "0,1", id="counted-and-past-it"),
    pytest.param(
        node(mig={"1g.10gb": 7}),
        {"mig": {"1g.10gb": 1}},
        Devices((), (("1g.10gb", 1),)),
        None,
        id="slices-only-the-node-is-honoured",
    ),
    pytest.param(
        node(gpus=4, mig={"1g.10gb": 7}, with_gpu_indexes=True),
        {"gpus": 2, "mig": {"1g.10gb": 1}},
        Devices((0, 1), (("1g.10gb", 1),)),
        "0,1",
        id="gpus-by-number-and-slices-by-count",
    ),
]


def test_failed_gpu_is_not_assigned_and_the_others_are() -> None:
    """The node's own count is one less meanwhile, and its last GPU is there all the same."""
    broken = node(
        gpus=3, with_gpu_indexes=True, annotations={"gpu-scheduler.io/unusable-devices": "1"}
    )
    state = cluster(broken)

    assert codes(state, pod("m-0", map="0=n1:0,1")) == {REASON_CODES["DEVICE_FAILED"]}
    assert placed(state, pod("m-0", map="0=n1:0,3")).devices.numbers == (0, 3)
    assert placed(state, pod("p", gpus=3)).devices.numbers == (0, 2, 3)
    assert codes(state, pod("p", gpus=4)) == {REASON_CODES["INSUFFICIENT"]}


@pytest.mark.parametrize(("at", "fields", "given", "value"), KINDS)
def test_map_devices_reach_the_containers(
    at: Node, fields: Any, given: Devices, value: str | None
) -> None:
    placement = placed(cluster(at), pod("w-0", map="0=n1:0,1", **fields))

    assert (placement.devices, placement.cuda_visible_devices) == (given, value)
    honoured = [reason for reason, _ in placement.notes if reason == "MapHonouredNodeOnly"]
    assert bool(honoured) is (value is None)


def test_mapped_and_packed_pods_exclude_each_other_on_counted_nodes() -> None:
    state = cluster(COUNTED)
    settle(state, pod("w-0", map="0=n1:0"))

    assert codes(state, pod("a", gpus=1)) == {REASON_CODES["KUBELET_ASSIGNS_DEVICES"]}
    assert settle(state, pod("w-0", namespace="two", map="0=n1:1")).devices.numbers == (1,)
    assert codes(state, pod("w-0", namespace="three", map="0=n1:1")) == {
        REASON_CODES["DEVICE_HELD"]
    }


def test_literal_env_with_a_kubelet_assigned_gpu_is_not_checked() -> None:
    own = container(gpus=1, env=[literal("0")])

    assert placed(cluster(COUNTED), pod("w-0", map="0=n1:3", containers=[own])).node_name == "n1"


LITERALS: list[Any] = [
    pytest.param([literal("0,1")], {}, None, id="as-the-map-says"),
    pytest.param(
        [literal("1,0")], {}, REASON_CODES["MAP_CHANGED"], id="another-order-is-another-value"
    ),
    pytest.param([literal("")], {}, REASON_CODES["MAP_CHANGED"], id="hides-all"),
    pytest.param([literal("7"), literal("0,1")], {}, None, id="the-last-entry-counts"),
    pytest.param([downward()], {}, None, id="reads-the-annotation"),
    pytest.param([literal("7")], {well_known.CUDA_MODE: "none"}, None, id="mode-none"),
    pytest.param([literal("0,1")], {well_known.CUDA_MODE: "local"}, None, id="mode-local"),
]


@pytest.mark.contract("S2-B6")
@pytest.mark.parametrize(("env", "annotations", "code"), LITERALS)
def test_env_always_equals_the_devices_annotation(
    env: list[Any], annotations: dict[str, str], code: ReasonCode | None
) -> None:
    mapped = pod("w-0", map="0=n1:0,1", annotations=annotations, containers=[container(env=env)])
    if code is None:
        assert placed(cluster(FOUR), mapped).devices.numbers == (0, 1)
    else:
        assert codes(cluster(FOUR), mapped) == {code}


def test_requesting_containers_get_shares_in_declaration_order() -> None:
    """Field case C17."""
    duo = pod(
        "duo-0",
        map="0=n1:3,1,2",
        init=[container("prep")],
        containers=[container("log"), container("serve", gpus=1), container("train", gpus=2)],
    )
    placement = placed(cluster(FOUR), duo)

    assert placement.cuda_visible_devices == "3,1,2"
    assert placement.shares == ("3", "1,2")


def test_pod_without_device_env_binds_with_a_note() -> None:
    """The seed's option A: no webhook."""
    state = cluster(node())
    [note] = placed(state, pod("w-0", map="0=n1:0")).notes
    told = pod("w-0", map="0=n1:0", containers=[container(env=[literal("0")])])

    assert note == (
        "EnvironmentNotSet",
        "CUDA_VISIBLE_DEVICES=0 was not set: the pod did not pass the webhook",
    )
    assert placed(state, told).notes == ()


@pytest.mark.parametrize(
    ("mode", "at", "is_reported"),
    [
        pytest.param("index", COUNTED, True, id="index-where-the-kubelet-picks"),
        pytest.param("local", COUNTED, False, id="local-where-the-kubelet-picks"),
        pytest.param("auto", COUNTED, False, id="auto-where-the-kubelet-picks"),
        pytest.param("index", node(gpus=4, with_gpu_indexes=True), False, id="index-where-we-pick"),
    ],
)
def test_pod_whose_env_may_hide_its_gpus_gets_a_note(
    mode: str, at: Node, is_reported: bool
) -> None:
    annotations = {"gpu-scheduler.io/cuda-mode": mode}
    notes = placed(cluster(at), pod("w-0", gpus=1, map="0=n1:2", annotations=annotations)).notes
    told = [text for reason, text in notes if reason == "EnvironmentMayHideGpus"]
    assert bool(told) is is_reported
    assert not told or told[0].startswith(
        "gpu-scheduler.io/cuda-mode: index sets CUDA_VISIBLE_DEVICES=2 although"
    )
