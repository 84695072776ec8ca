"""The shares of one node's GPUs, in every way in which a pod can hold some."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.pods.original_request import KEPT_LENGTH_MAX
from scheduler.model.well_known import DRA_DRIVER
from scheduler.state.capacity.gpu_pools import Idle
from scheduler.state.capacity.gpu_shares import NodeShares, shares_of
from scheduler.state.snapshot import GpusInBackoff
from tests.builders import cluster, dynamic, node, pod
from tests.dra import claiming, device_json, resource_slice
from tests.unit.state.capacity.test_node_devices import held, partitions

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
SHARES = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"}
FAILED = {"gpu-scheduler.io/unusable-devices": "1,3"}


def seen(*objects: Any) -> NodeShares:
    """The shares of node n1; they add up to its GPUs."""
    state = cluster(*objects)
    node_info = state.at("n1")
    assert node_info is not None
    found = shares_of(node_info, state.dra, set())
    parts = (*(one.share for one in found.held), *(one.idle for one in found.cut))
    assert sum(parts, found.idle.total) == found.gpus
    return found


def idle(**parts: str) -> Idle:
    return Idle(**{name: Fraction(text) for name, text in parts.items()})


def by_pod(found: NodeShares) -> dict[str, str]:
    return {one.pod.name if one.pod else one.namespace: str(one.share) for one in found.held}


@pytest.mark.parametrize(
    ("objects", "gpus", "shares", "rest"),
    [
        pytest.param(
            (node("n1", gpus=8), pod("a", gpus=3, node="n1")),
            8,
            {"a": "3"},
            idle(free="5"),
            id="counted-gpus",
        ),
        pytest.param(
            (node("n1", gpus=6, capacity={well_known.GPU: "8"}), pod("a", gpus=1, node="n1")),
            8,
            {"a": "1"},
            idle(free="5", failed="2"),
            id="unhealthy-gpus",
        ),
        pytest.param(
            (
                node("n1", gpus=2, with_gpu_indexes=True, annotations=FAILED),
                pod("a", gpus=1, node="n1", devices="gpu:2"),
            ),
            4,
            {"a": "1"},
            idle(free="1", failed="2"),
            id="gpus-by-index",
        ),
        pytest.param(
            (
                node("n1"),
                pod("a", map="0=n1:0,1", owner="ReplicaSet/r", node="n1", devices="gpu:0,1"),
                pod("b", map="0=n1:0", owner="ReplicaSet/r", node="n1", devices="gpu:0"),
            ),
            2,
            {"a": "3/2", "b": "1/2"},
            idle(),
            id="gpus-shared-by-maps",
        ),
        pytest.param(
            (node("n1", gpus=8, labels=SHARES), pod("a", gpus=1, node="n1")),
            2,
            {"a": "1/4"},
            idle(free="7/4"),
            id="time-slicing",
        ),
        pytest.param(
            (node("n1", gpus=8, cordoned=True), pod("a", gpus=1, node="n1")),
            8,
            {"a": "1"},
            idle(unavailable="7"),
            id="cordoned",
        ),
        pytest.param(
            (node("n1", gpus=2), pod("a", gpus=3, node="n1", scheduler="default-scheduler")),
            2,
            {"a": "2"},
            idle(),
            id="more-held-than-there-are",
        ),
        pytest.param(
            (
                node("n1", mig={"1g.10gb": 4, "2g.20gb": 1}, labels=A100),
                pod("a", mig={"1g.10gb": 2}, node="n1"),
            ),
            1,
            {"a": "2/7"},
            idle(free="4/7", stranded="1/7"),
            id="static-mig-with-a-part-that-no-instance-covers",
        ),
        pytest.param(
            (
                node("n1", mig={"4g.40gb": 1, "3g.40gb": 1}, labels=A100),
                pod("a", mig={"4g.40gb": 1}, node="n1"),
                pod("b", mig={"3g.40gb": 1}, node="n1"),
            ),
            1,
            {"a": "8/15", "b": "7/15"},
            idle(),
            id="shares-above-one-gpu",
        ),
        pytest.param(
            (
                node(
                    "n1", gpus=4, mig={"3g.40gb": 2}, labels={**A100, "nvidia.com/gpu.count": "6"}
                ),
                pod("a", gpus=1, node="n1"),
                pod("b", mig={"3g.40gb": 1}, node="n1"),
            ),
            6,
            {"a": "1", "b": "1/2"},
            idle(free="7/2", stranded="1"),
            id="whole-gpus-beside-mig",
        ),
        pytest.param(
            (
                node("n1", gpus=7, labels={"nvidia.com/gpu.product": "A100-SXM4-80GB-MIG-1g.10gb"}),
                pod("a", gpus=3, node="n1"),
            ),
            1,
            {"a": "3/7"},
            idle(free="4/7"),
            id="strategy-single",
        ),
        pytest.param((node("n1"),), 0, {}, idle(), id="no-gpus"),
    ],
)
def test_shares_of_a_plugin_or_a_map(
    objects: tuple[Any, ...], gpus: int, shares: dict[str, str], rest: Idle
) -> None:
    found = seen(*objects)

    assert (found.gpus, by_pod(found), found.idle) == (gpus, shares, rest)


def test_dynamic_gpus_are_counted_one_by_one() -> None:
    found = seen(
        dynamic("n1", gpus=4, annotations={"gpu-scheduler.io/unusable-devices": "3"}),
        pod("a", mig={"3g.40gb": 1}, node="n1", devices="3g.40gb@0/4"),
        pod("b", mig={"4g.40gb": 1}, node="n1", devices="4g.40gb@0/0"),
        pod("c", mig={"2g.20gb": 1}, node="n1", devices="2g.20gb@1/0"),
        GpusInBackoff(node_name="n1", gpus=()),
    )

    assert by_pod(found) == {"a": "7/15", "b": "8/15", "c": "2/7"}
    assert [(one.layout, str(one.idle)) for one in found.cut] == [((("2g.20gb", 0),), "5/7")]
    assert found.idle == idle(free="1", failed="1")


def test_unknown_places_make_one_pool_without_room() -> None:
    found = seen(
        dynamic("n1", gpus=2),
        pod("a", mig={"3g.40gb": 1}, node="n1", devices="3g.40gb@0/4"),
        pod("b", mig={"1g.10gb": 1}, node="n1"),
    )

    assert by_pod(found) == {"a": "1/2", "b": "1/7"}
    assert found.idle == idle(unavailable="19/14")


@pytest.mark.parametrize(
    ("record", "saved"),
    [
        pytest.param('{"app": {"limits": {"nvidia.com/mig-3g.40gb": "1"}}}', "5/14", id="slice"),
        pytest.param('{"app": {"limits": {"nvidia.com/gpu": "1"}}}', "6/7", id="whole-gpu"),
        pytest.param('{"app": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}', "0", id="the-same"),
        pytest.param('{"other": {"limits": {"nvidia.com/gpu": "1"}}}', "0", id="no-container"),
        pytest.param("nonsense", "0", id="no-record"),
        pytest.param(f'{{"app": {{}}, "{"x" * KEPT_LENGTH_MAX}": {{}}}}', "0", id="too-long"),
    ],
)
def test_degraded_pod_saves_the_rest_of_its_requested_tier(record: str, saved: str) -> None:
    annotations = {well_known.ORIGINAL: record, well_known.FALLBACK: "1g.10gb"}
    found = seen(
        node("n1", mig={"1g.10gb": 7}, labels=A100),
        pod("a", mig={"1g.10gb": 1}, node="n1", annotations=annotations),
    )

    [one] = found.held
    assert (str(one.share), one.is_degraded, str(one.saved)) == ("1/7", True, saved)


# --- DRA ---------------------------------------------------------------------------------------


def test_partitions_of_a_card_are_one_gpu() -> None:
    found = seen(
        node("n1"),
        *partitions(),
        held("gpu-0-mig-1", "p"),
        pod("p", node="n1", spec=claiming("mine")),
    )

    assert (found.gpus, by_pod(found)) == (1, {"p": "3/7"})
    assert found.idle == idle(free="3/7", stranded="1/7")


def test_pods_of_one_claim_hold_equal_parts() -> None:
    users = [pod(name, node="n1", spec=claiming("mine")) for name in "abc"]
    found = seen(
        node("n1"),
        resource_slice("n1", "gpu-0", "gpu-1", driver=DRA_DRIVER),
        held("gpu-0", "a", "b", "c"),
        *users,
    )

    assert (found.gpus, by_pod(found)) == (2, dict.fromkeys("abc", "1/3"))


def test_a_claim_without_a_pod_belongs_to_its_namespace() -> None:
    found = seen(node("n1"), resource_slice("n1", "gpu-0", driver=DRA_DRIVER), held("gpu-0"))

    assert by_pod(found) == {"team": "1"}


def test_other_devices_than_gpus_have_no_share() -> None:
    nic = device_json("nic")
    found = seen(node("n1"), resource_slice("n1", nic, driver="nics.example.com"))

    assert found.gpus == 0
