"""Nodes that are partitioned or being partitioned: which pods fit, with which reasons."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause, sentence
from scheduler.plugins import REASON_CODES, mig_state
from scheduler.state.event import ClusterEvent
from scheduler.state.node_info import NodeInfo
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import restore, take
from tests.builders import (
    ALLOW_ALL_MAPS,
    GPU,
    cluster,
    codes,
    container,
    node,
    placed,
    pod,
    refused,
    settle,
)

STATE = "nvidia.com/mig.config.state"
WANTED = {"nvidia.com/mig.config": "all-1g.10gb"}
MANAGED = {**WANTED, "nvidia.com/gpu.deploy.mig-manager": "true"}
SLICE = pod(mig={"1g.10gb": 1})

STATES = [
    pytest.param({STATE: "pending"}, "pending", id="pending"),
    pytest.param({STATE: "rebooting"}, "rebooting", id="rebooting"),
    pytest.param({STATE: "failed"}, "failed", id="failed"),
    pytest.param({STATE: "success"}, None, id="success"),
    pytest.param({}, None, id="no-partitioner"),
    pytest.param(MANAGED, "unset", id="a-new-node-that-will-be-cut"),
    pytest.param({**MANAGED, STATE: "success"}, None, id="and-was"),
    pytest.param(
        {**WANTED, "nvidia.com/mig.capable": "false"}, None, id="a-wish-that-cannot-be-fulfilled"
    ),
]


def at(labels: dict[str, str]) -> NodeInfo:
    return NodeInfo(node(gpus=1, mig={"1g.10gb": 7}, labels=labels))


@pytest.mark.parametrize(("labels", "state"), STATES)
@pytest.mark.parametrize(
    "newcomer", [pod(gpus=1), SLICE, pod(map="0=n1:0")], ids=["gpu", "slice", "mapped"]
)
def test_pods_wait_while_gpus_are_being_partitioned(
    labels: dict[str, str], state: str | None, newcomer: Pod
) -> None:
    said = [(reason.code, reason.text) for reason in mig_state.check(newcomer, at(labels))]
    text = f"node(s) had nvidia.com/mig.config.state {state}"
    assert said == ([(REASON_CODES["MIG_NOT_READY"], text)] if state else [])


def test_pod_without_a_gpu_uses_a_node_being_partitioned() -> None:
    assert mig_state.check(pod(requests={"cpu": "1"}), at({STATE: "pending"})) == ()


def test_partition_state_is_checked_before_stale_counts() -> None:
    """While mig-manager works the plugin advertises nothing; that is not what is wrong."""
    state = cluster(node(gpus=0, mig={"1g.10gb": 0}, labels={STATE: "pending"}))
    text = sentence(refused(state, SLICE).diagnosis)
    assert text == ("0/1 nodes are available: 1 node(s) had nvidia.com/mig.config.state pending.")


SINGLE = node(
    "single",
    gpus=7,
    labels={
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "nvidia.com/mig.strategy": "single",
        "class": "single",
    },
)
ASKED: list[Any] = [
    pytest.param(pod(gpus=1), False, id="one-slice"),
    pytest.param(pod(gpus=2), True, id="two-in-one-container"),
    pytest.param(
        pod(containers=[container("a", gpus=1), container("b", gpus=1)]), False, id="one-each"
    ),
    pytest.param(
        pod(containers=[container("a")], init=[container("i", gpus=2)]), True, id="two-at-the-start"
    ),
]


@pytest.mark.parametrize(("newcomer", "is_refused"), ASKED)
def test_strategy_single_gives_one_slice_and_refuses_two_gpus(
    newcomer: Pod, is_refused: bool
) -> None:
    found = [reason.code for reason in mig_state.check(newcomer, NodeInfo(SINGLE))]
    assert found == ([REASON_CODES["GPU_RESOURCE_IS_MIG"]] if is_refused else [])


def config(devices: str) -> dict[str, str]:
    text = (
        f"mig-configs:\n  selected:\n  - devices: {devices}\n    mig-enabled: true\n"
        "    mig-devices: {1g.10gb: 3}\n"
    )
    return {"run.ai/mig.config": text}


def mixed(name: str, gpus: int, mig: dict[str, int], cut: str) -> Node:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/mig.strategy": "mixed",
        "class": "whole",
    }
    return node(name, gpus=gpus, mig=mig, labels=labels, annotations=config(cut))


def test_stale_count_beside_whole_and_partitioned_gpus_is_corrected() -> None:
    n1 = mixed("n1", 2, {"1g.10gb": 6}, "all")  # its two whole GPUs are stale
    n2 = mixed("n2", 1, {"2g.20gb": 3, "1g.10gb": 1}, "[0]")
    state = cluster(n1, n2, SINGLE)

    assert settle(state, pod("whole", gpus=1, selector={"class": "whole"})).node_name == "n2"
    assert codes(state, pod("next", gpus=1, selector={"class": "whole"})) == {
        REASON_CODES["INSUFFICIENT"],
        REASON_CODES["AFFINITY"],
    }
    for number in range(3):
        assert settle(state, pod(f"m{number}", mig={"2g.20gb": 1})).node_name == "n2"
    assert codes(state, pod("m4", mig={"2g.20gb": 1})) == {REASON_CODES["INSUFFICIENT"]}
    two = pod("s1", gpus=2, selector={"class": "single"})
    assert REASON_CODES["GPU_RESOURCE_IS_MIG"] in codes(state, two)
    assert placed(state, pod("s2", gpus=1, selector={"class": "single"})).node_name == "single"


def test_leftover_zero_count_offers_nothing() -> None:
    """After MIG was switched off the keys stay: they neither offer nor block anything."""
    left_over = node(gpus=8, mig={"1g.5gb": 0, "2g.10gb": 0})
    assert left_over.devices == (GPU,)
    assert placed(cluster(left_over), pod(gpus=8)).node_name == "n1"
    assert codes(cluster(left_over), pod(mig={"1g.5gb": 1})) == {REASON_CODES["INSUFFICIENT"]}


def test_plugin_that_advertises_zero_still_assigns_devices() -> None:
    restarting = node(mig={"1g.10gb": 0})
    assert restarting.devices == ()
    assert restarting.advertises_gpus
    assert not restarting.is_index_assigned


NEW = {**WANTED, "nvidia.com/mig.capable": "true"}
AWAITED = [
    pytest.param(WANTED, True, id="only-the-wish"),
    pytest.param(NEW, True, id="and-it-can-be-cut"),
    pytest.param({**NEW, "nvidia.com/mig.capable": "false"}, False, id="it-cannot-be-cut"),
    pytest.param(
        {**NEW, "nvidia.com/gpu.deploy.mig-manager": "false"}, False, id="partitioner-disabled"
    ),
    pytest.param({**NEW, STATE: "success"}, False, id="it-was-cut"),
    pytest.param({}, False, id="no-wish"),
]
BORN, BORN_AT = "2026-11-27T10:00:00Z", 1_795_773_600.0


@pytest.mark.parametrize(("labels", "is_awaited"), AWAITED)
def test_new_node_offers_nothing_until_its_partitioner_is_known(
    labels: dict[str, str], is_awaited: bool
) -> None:
    found = mig_state.check(pod(gpus=1), at(labels))
    assert [reason.code for reason in found] == (
        [REASON_CODES["MIG_NOT_READY"]] if is_awaited else []
    )
    assert mig_state.check(pod(requests={"cpu": "1"}), at(labels)) == ()


def test_unsettled_node_is_used_after_15_minutes() -> None:
    state = cluster(born(node("n1", gpus=1, labels=NEW)))
    waiting = pod(gpus=1)
    assert codes(state, waiting) == {REASON_CODES["MIG_NOT_READY"]}

    assert state.pass_time(BORN_AT + 899) == []
    assert codes(state, waiting) == {REASON_CODES["MIG_NOT_READY"]}
    assert state.pass_time(BORN_AT + 900) == [ClusterEvent(RequeueCause.NODE, node_name="n1")]
    placed(state, waiting)
    # A label that changes later is no new birth; a node that is made again is one.
    state.upsert_node(born(node("n1", gpus=1, labels={**NEW, "zone": "a"})))
    assert state.pass_time(BORN_AT + 901) == []
    placed(state, waiting)
    state.upsert_node(born(node("n1", gpus=1, labels=NEW, uid="another")))
    assert codes(state, waiting) == {REASON_CODES["MIG_NOT_READY"]}


def test_partitioned_or_deleted_node_is_not_awaited() -> None:
    state = cluster(born(node("n1", gpus=1, labels=NEW)), born(node("n2", gpus=1, labels=NEW)))
    state.upsert_node(born(node("n1", gpus=0, labels={**NEW, STATE: "pending"})))
    state.delete_node("n2")
    assert state.pass_time(BORN_AT + 10_000) == []


def born(found: Node) -> Node:
    return msgspec.structs.replace(found, created=BORN)


def test_a_snapshot_knows_which_nodes_were_waited_for_long_enough() -> None:
    state = cluster(born(node("n1", gpus=1, labels=NEW)), born(node("n2", gpus=1, labels=NEW)))
    state.nodes.settle("n2")
    kept = restore(
        take(state, SchedulingQueue(), Reservations(ALLOW_ALL_MAPS.reach, state.namespaces), 0, 0.0)
    )
    assert placed(kept, pod(gpus=1)).node_name == "n2"
