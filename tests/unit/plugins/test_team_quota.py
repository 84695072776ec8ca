"""TeamQuota: what a team may use, and the reason with its numbers."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.gang.plan import GangPlan, plan_gang
from scheduler.framework.decision import Rejection
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import RequeueCause, sentence
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.state.queue.requeue_conditions import requeue_condition
from tests.builders import (
    ALLOW_ALL_MAPS,
    PodFields,
    cluster,
    dynamic,
    node,
    placed,
    pod,
    pod_json,
    refused,
)
from tests.dra import device_class, device_json, resource_slice
from tests.fake_autoscalers import wants_a_node
from tests.gangs import members
from tests.teams import A100, INSIDE, table, team
from tools.autoscaler.contract import Reading
from tools.autoscaler.plan import GROUP_LABEL, NodeGroup
from tools.autoscaler.plan import plan as plan_nodes
from tools.controlplane.fake_nodes import FakeNode

NVIDIA = "gpu.nvidia.com"
EIGHT = node("n1", gpus=8, labels=A100)
LIMITED = table(team("a", 2, 4), team("b", 2))
MANAGED = {"kueue.x-k8s.io/managed": "true"}


def holding(count: int, namespace: str = "a", **fields: Any) -> Pod:
    return pod(f"held-{namespace}", node="n1", namespace=namespace, gpus=count, **fields)


@pytest.mark.contract("S4-25")
@pytest.mark.parametrize(
    ("held", "asking", "reason"),
    [
        pytest.param(
            4,
            {"gpus": 1},
            "quota of team a exceeded: 28 slices and 320 GB are used, the pod asks for 7 slices and"
            " 80 GB and the limit is 28 slices and 320 GB; guaranteed are 14 slices and 160 GB;"
            " team b has 7 slices and 80 GB above its guarantee.",
            id="above the limit",
        ),
        pytest.param(
            2,
            {"gpus": 1, "annotations": INSIDE},
            "quota of team a exceeded: 14 slices and 160 GB are used, the pod asks for 7 slices and"
            " 80 GB and the pod runs only inside the guarantee; guaranteed are 14 slices and"
            " 160 GB; team b has 7 slices and 80 GB above its guarantee.",
            id="above the guarantee",
        ),
    ],
)
def test_the_reason_has_the_numbers(held: int, asking: PodFields, reason: str) -> None:
    state = cluster(LIMITED, EIGHT, holding(held), holding(3, "b"))
    fields: PodFields = {**asking, "namespace": "a"}
    rejection = refused(state, pod("p", **fields))

    assert sentence(rejection.diagnosis) == "0/1 nodes are available: " + reason


@pytest.mark.parametrize(
    ("held", "asking"),
    [
        pytest.param(3, {"gpus": 1}, id="up to the limit"),
        pytest.param(2, {"gpus": 2}, id="lent by others"),
        pytest.param(1, {"gpus": 1, "annotations": INSIDE}, id="inside the guarantee"),
        pytest.param(4, {"gpus": 1, "namespace": "other"}, id="a namespace without a team"),
        pytest.param(4, {"requests": {"cpu": 1}}, id="no GPU"),
        pytest.param(4, {"gpus": 1, "labels": MANAGED}, id="Kueue admitted it"),
    ],
)
def test_a_pod_within_the_quota_is_placed(held: int, asking: PodFields) -> None:
    state = cluster(LIMITED, EIGHT, holding(held))
    fields: PodFields = {"namespace": "a", **asking}

    assert placed(state, pod("p", **fields)).node_name == "n1"


def test_one_of_slices_and_memory_is_enough_to_refuse() -> None:
    """A 1g.20gb takes as much memory as a 2g.20gb."""
    narrow = table(team("a", 0, 1))
    state = cluster(narrow, dynamic("n1", gpus=4))
    for name in ("p-0", "p-1", "p-2", "p-3"):
        state.upsert_pod(pod(name, node="n1", namespace="a", mig={"1g.20gb": 1}))

    rejection = refused(state, pod("p", namespace="a", mig={"1g.20gb": 1}))
    assert "4 slices and 80 GB are used" in sentence(rejection.diagnosis)


def test_a_larger_gpu_can_exceed_what_a_smaller_one_does_not() -> None:
    small = node("n2", gpus=1, labels={"nvidia.com/gpu.product": "NVIDIA-A30"})
    state = cluster(table(team("a", 0, 0.6)), EIGHT, small)

    assert placed(state, pod("p", namespace="a", gpus=1)).node_name == "n2"
    state.upsert_pod(pod("held", node="n2", namespace="other", gpus=1))
    rejection = refused(state, pod("p", namespace="a", gpus=1))
    assert rejection.diagnosis.condition_reason(is_mapped=False) is ConditionReason.QUOTA_EXCEEDED


def test_nodes_without_gpus_do_not_hide_the_quota() -> None:
    state = cluster(LIMITED, EIGHT, node("cpu"), holding(4))
    rejection = refused(state, pod("p", namespace="a", gpus=1))

    assert rejection.diagnosis.condition_reason(is_mapped=False) is ConditionReason.QUOTA_EXCEEDED


def test_gpus_of_a_map_count_when_they_are_chosen() -> None:
    indexed = node("n1", labels=A100, with_gpu_indexes=True, gpus=None, annotations={})
    state = cluster(table(team("a", 0, 1)), indexed)
    rejection = refused(state, pod("p-0", namespace="a", owner="StatefulSet/p", map="0=n1:0,1"))

    assert [code.name for code in rejection.diagnosis.codes()] == ["QUOTA_EXCEEDED"]


def test_devices_of_claims_count_when_they_are_chosen() -> None:
    product = {f"{NVIDIA}/productName": {"string": "NVIDIA A100-SXM4-80GB"}}
    cards = [device_json(f"gpu-{at}", attributes=product) for at in range(2)]
    serving = device_class(NVIDIA, f"device.driver == '{NVIDIA}'")
    state = cluster(
        table(team("a", 0, 1)), node("n1"), serving, resource_slice("n1", *cards, driver=NVIDIA)
    )
    state.update_devices()
    resource = f"deviceclass.resource.kubernetes.io/{NVIDIA}"

    assert placed(state, pod("p", namespace="a", requests={resource: 1})).node_name == "n1"
    rejection = refused(state, pod("p", namespace="a", requests={resource: 2}))
    assert [code.name for code in rejection.diagnosis.codes()] == ["QUOTA_EXCEEDED"]


# --- groups ---------------------------------------------------------------------------------


def plan(state: Cluster, pods: list[Pod]) -> GangPlan | Rejection:
    for one in pods:
        fold(state, ev.PodUpdated(one))
    gang = state.gangs.of(pods[0])
    assert gang is not None
    return plan_gang(state, gang, pods, ALLOW_ALL_MAPS)


def test_the_quota_is_checked_for_the_whole_group() -> None:
    """KAI#500: pods of a group were placed in part when the team had too little quota."""
    state = cluster(LIMITED, EIGHT, holding(2))
    found = plan(state, members(3, 3, namespace="a", gpus=1))

    assert isinstance(found, Rejection)
    assert found.diagnosis.condition_reason(is_mapped=False) is ConditionReason.QUOTA_EXCEEDED
    assert "2 of the 3 members" in sentence(found.diagnosis)
    assert state.assumed == {}


def test_a_group_inside_the_quota_is_placed_as_a_whole() -> None:
    state = cluster(LIMITED, EIGHT, holding(2))
    found = plan(state, members(2, 2, namespace="a", gpus=1))

    assert isinstance(found, GangPlan)
    assert len(found.placements) == 2


def test_free_quota_without_a_node_for_it_is_told_as_such() -> None:
    """KUE#5243: the quota was free, no node had eight GPUs, and smaller work waited behind."""
    nodes = [node(f"n{at}", gpus=8, labels=A100) for at in range(2)]
    held = [pod(f"o-{at}", node=f"n{at}", namespace="other", gpus=4) for at in range(2)]
    state = cluster(table(team("a", 8)), *nodes, *held)
    rejection = refused(state, pod("p", namespace="a", gpus=8))

    assert "Insufficient nvidia.com/gpu (need 8; best node has 4 free)" in sentence(
        rejection.diagnosis
    )
    assert rejection.diagnosis.condition_reason(is_mapped=False) is ConditionReason.UNSCHEDULABLE
    assert placed(state, pod("small", namespace="a", gpus=4)).node_name in {"n0", "n1"}


# --- what lifts it --------------------------------------------------------------------------


def test_autoscalers_buy_no_node_for_a_quota() -> None:
    """KAI#1615, CA#9828: a pod above the quota made an autoscaler add nodes."""
    state = cluster(LIMITED, EIGHT, holding(4))
    rejection = refused(state, pod("p", namespace="a", gpus=1))

    reason = rejection.diagnosis.condition_reason(is_mapped=False)
    said = {"type": "PodScheduled", "status": "False", "reason": reason}
    assert not wants_a_node(pod_json("p", namespace="a", gpus=1, status={"conditions": [said]}))
    assert not rejection.nominated_node


@pytest.mark.parametrize("reading", Reading)
def test_a_pod_above_the_quota_keeps_no_idle_node(reading: Reading) -> None:
    """KARP#742: the node seemed to be of use for the pod that the quota refused."""
    state = cluster(LIMITED, EIGHT, holding(4))
    rejection = refused(state, pod("p", namespace="a", gpus=1))
    reason = rejection.diagnosis.condition_reason(is_mapped=False)
    said = {"type": "PodScheduled", "status": "False", "reason": reason}
    waiting = pod_json("p", namespace="a", gpus=1, status={"conditions": [said]})
    idle = FakeNode(name="idle", gpus=1, labels={GROUP_LABEL: "gpus"}).manifest()

    found = plan_nodes([waiting], [idle], NodeGroup("gpus", idle, 9), reading, frozenset(["idle"]))

    assert found.remove == ("idle",)


def test_only_a_change_of_the_own_team_helps() -> None:
    state = cluster(LIMITED, EIGHT, holding(4), holding(2, "b"))
    rejection = refused(state, pod("p", namespace="a", gpus=1))
    condition = requeue_condition(rejection.diagnosis)

    def helps(changes: list[ev.Change]) -> bool:
        return any(
            isinstance(one, ev.ClusterEvent)
            and one.cause is RequeueCause.TEAM
            and condition.is_met_by(one)
            for one in changes
        )

    assert not helps(state.delete_pod("b-held-b"))
    assert helps(state.delete_pod("a-held-a"))


def test_equal_pods_above_the_quota_wait_as_one_group() -> None:
    state = cluster(LIMITED, EIGHT, holding(4))
    rejection = refused(state, pod("p", namespace="a", gpus=1))

    assert not requeue_condition(rejection.diagnosis).is_alone
    inside = pod("q", namespace="a", gpus=1, annotations=INSIDE)
    assert inside.equivalence_class != pod("p", namespace="a", gpus=1).equivalence_class


def test_without_teams_nothing_is_refused_or_counted() -> None:
    state = cluster(EIGHT, holding(7))

    assert placed(state, pod("p", namespace="a", gpus=1)).node_name == "n1"
    assert state.teams.kinds == {}
