"""The example autoscaler: what it adds and removes by the rules of both autoscalers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import pod_json
from tools.autoscaler.contract import Reading
from tools.autoscaler.plan import GROUP_LABEL, NodeGroup, Plan, plan
from tools.controlplane.fake_nodes import FakeNode

Json = dict[str, Any]
GROUP = NodeGroup("gpus", FakeNode(name="", gpus=1).manifest(), nodes_max=3)
OTHER = FakeNode(name="other", gpus=1).manifest()
OURS = FakeNode(name="ours", gpus=1, labels={GROUP_LABEL: "gpus"}).manifest()
CORDONED = {**OTHER, "spec": {"unschedulable": True}}
CA, KARPENTER = Reading


def waiting(name: str, reason: str = "Unschedulable", nominated: str = "", **fields: Any) -> Json:
    """A pod with this reason; one GPU."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    status = {"conditions": [condition], "nominatedNodeName": nominated}
    return pod_json(name, status=status, **{"gpus": 1, **fields})


def running(name: str, node: str, **fields: Any) -> Json:
    return pod_json(name, node=node, phase="Running", gpus=1, **fields)


TRAIN = [waiting("train-0"), waiting("train-1")]
ADDS = [
    pytest.param(TRAIN, [OTHER], 1, id="gang-of-2-and-one-free-node"),
    pytest.param(TRAIN, [running("x", "other"), OTHER], 2, id="gang-of-2-and-no-free-node"),
    pytest.param(TRAIN, [], 2, id="gang-of-2-and-no-node"),
    pytest.param(TRAIN, [OTHER, OURS], 0, id="the-added-node-is-not-used-yet"),
    pytest.param(TRAIN, [CORDONED], 2, id="cordoned-node"),
    pytest.param([waiting(f"p{n}") for n in range(9)], [], 3, id="size-of-the-group"),
    pytest.param([waiting("large", gpus=2)], [], 0, id="larger-than-the-nodes-of-the-group"),
    pytest.param([waiting("a", spec={"nodeSelector": {"a": "b"}})], [], 0, id="other-labels"),
    pytest.param([waiting("a", deleting=True)], [], 0, id="deleted-pod"),
    pytest.param([pod_json("a", gpus=1)], [], 0, id="not-decided-yet"),
    pytest.param([waiting("a", "QuotaExceeded")], [], 0, id="over-quota"),
    pytest.param([waiting("a", "WaitingForGroup")], [], 0, id="incomplete-group"),
    pytest.param([waiting("a", "NoSuchProfile")], [], 0, id="no-such-profile"),
    pytest.param([waiting("a", "IndexNotInMap")], [], 0, id="map-without-its-line"),
    pytest.param([waiting("a", "WaitingForCapacity", "other")], [OTHER], 0, id="nominated"),
]


@pytest.mark.parametrize("reading", Reading)
@pytest.mark.parametrize(("pods", "others", "count"), ADDS)
def test_nodes_are_added_only_where_they_help(
    pods: list[Json], others: list[Json], count: int, reading: Reading
) -> None:
    nodes = [one for one in others if one["kind"] == "Node"]
    every = [*pods, *(one for one in others if one["kind"] == "Pod")]

    assert plan(every, nodes, GROUP, reading).add == count


def test_marking_one_member_adds_no_node() -> None:
    """Why all members of a group have to request a node (VOL#2558)."""
    silent = waiting("train-0", "WaitingForGroup")

    assert [plan([silent, TRAIN[1]], [OTHER], GROUP, one).add for one in Reading] == [0, 0]


def test_only_one_autoscaler_counts_nominated_pods() -> None:
    expected = waiting("a", "WaitingForCapacity", "other")

    added = [plan([expected, waiting("b")], [OTHER], GROUP, one).add for one in (CA, KARPENTER)]

    assert added == [1, 0]


EMPTY = Plan(empty=frozenset(("ours",)))
KEPT = [
    pytest.param([], False, EMPTY, id="empty-for-the-first-time"),
    pytest.param([], True, Plan(remove=("ours",)), id="still-empty"),
    pytest.param([running("a", "ours")], True, Plan(), id="a-pod-runs-there"),
    pytest.param([waiting("a")], True, Plan(), id="a-pod-is-to-come"),
    pytest.param([waiting("a", "WaitingForCapacity", "ours")], True, Plan(), id="nominated"),
    pytest.param(
        [pod_json("a", node="ours", phase="Succeeded")], True, Plan(remove=("ours",)), id="ended"
    ),
    pytest.param(
        [running("d", "ours", owner="DaemonSet/d")], True, Plan(remove=("ours",)), id="daemons-only"
    ),
]


@pytest.mark.parametrize("reading", Reading)
@pytest.mark.parametrize(("pods", "was_empty", "expected"), KEPT)
def test_own_nodes_are_removed_once_they_stay_empty(
    pods: list[Json], was_empty: bool, expected: Plan, reading: Reading
) -> None:
    before = frozenset(("ours",)) if was_empty else frozenset()

    assert plan(pods, [OURS], GROUP, reading, before) == expected


def test_nodes_of_others_are_never_removed() -> None:
    assert plan([], [OTHER], GROUP, CA, frozenset(("other",))) == Plan()
