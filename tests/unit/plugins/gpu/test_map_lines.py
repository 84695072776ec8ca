"""Lines that cannot be had, pods that may take any line, and pods with another map."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause, sentence
from scheduler.plugins import REASON_CODES, default_pipeline
from scheduler.state.queue.requeue_conditions import requeue_condition
from tests.builders import (
    cluster,
    codes,
    container,
    literal,
    node,
    placed,
    pod,
    refused,
    settle,
)

WEB = "Deployment/web@r1"

THREE = "0=n0:0\n1=n1:0\n2=n2:0"
OTHERS = (node("n1"), node("n2"))


def replica(name: str, text: str = THREE, **fields: Any) -> Pod:
    return pod(f"web-{name}", owner=WEB, map=text, **fields)


#: What blocks line 0, and the reason of a pod that has no other line left.
UNUSABLE: list[Any] = [
    pytest.param(
        [node("n0", cordoned=True)], "line 0 on node n0: node(s) were unschedulable", id="cordoned"
    ),
    pytest.param([], "line 0: no node is named n0 or labelled gpu-node-name=n0", id="gone"),
    pytest.param(
        [node("n0", taints=["maint=x:NoExecute"])],
        "line 0 on node n0: node(s) had untolerated taint {maint: x}",
        id="tainted",
    ),
    pytest.param(
        [node("n0", gpus=3, annotations={well_known.UNUSABLE_DEVICES: "0"})],
        "line 0 on node n0: node(s) whose GPU 0 failed",
        id="its-gpu-failed",
    ),
    pytest.param(
        [node("n0"), pod("other-0", map="0=n0:0", node="n0", index=0, devices="gpu:0")],
        "line 0 on node n0: node(s) where GPU 0 is held by a pod that does not share it",
        id="its-device-is-another-owners",
    ),
    pytest.param(
        [node("n0", cpu="0")],
        "line 0 on node n0: Insufficient cpu (need 100m; 0 free)",
        id="full",
    ),
    pytest.param(
        [node("a", labels={"gpu-node": "n0"}), node("b", labels={"gpu-node": "n0"})],
        "line 0: n0 of gpu-scheduling-map fits 2 nodes: a and b",
        id="ambiguous",
    ),
]


@pytest.mark.contract("S2-B9")
@pytest.mark.parametrize(("there", "told"), UNUSABLE)
def test_unavailable_line_blocks_no_interchangeable_pod(there: list[Any], told: str) -> None:
    state = cluster(*there, *OTHERS)
    first, second, third = (replica(name, requests={"cpu": "100m"}) for name in "abc")

    assert [settle(state, one).index for one in (first, second)] == [1, 2]
    late = sentence(refused(state, third).diagnosis)
    assert late.endswith(
        f" nodes are available: no line of gpu-scheduling-map is available: {told};"
        " 2 of 3 lines are held by its siblings."
    )


def test_after_a_drain_replacement_and_new_replica_take_free_lines() -> None:
    text = THREE + "\n3=n1:1"
    state = cluster(node("n0"), *OTHERS)
    first = settle(state, replica("a", text))
    settle(state, replica("b", text))
    state.upsert_node(node("n0", cordoned=True))
    state.delete_pod(first.pod.uid)

    assert [settle(state, replica(name, text)).index for name in "cd"] == [2, 3]


def test_returning_node_is_taken_by_the_pod_waiting_for_its_line() -> None:
    state = cluster(node("n0", cordoned=True), *OTHERS)
    for name in "ab":
        settle(state, replica(name))
    late = replica("c")

    assert codes(state, late) == {
        REASON_CODES["NO_FREE_MAP_LINE"],
        REASON_CODES["NODE_UNSCHEDULABLE"],
    }
    assert requeue_condition(refused(state, late).diagnosis).causes == {
        RequeueCause.OWNER,
        RequeueCause.NODE,
        RequeueCause.POD,
    }
    state.upsert_node(node("n0"))
    assert settle(state, late).index == 0


def test_container_with_its_own_literal_takes_the_matching_line() -> None:
    own = replica("a", containers=[container(env=[literal("1")])], text="0=n1:0\n1=n1:1")

    assert placed(cluster(*OTHERS), own).index == 1


def test_pod_with_an_index_waits_for_its_own_line() -> None:
    state = cluster(node("n0", cordoned=True), *OTHERS)
    owner = "MPIJob.kubeflow.org/cifar"
    worker = pod("w-0", owner=owner, labels={well_known.TRAINING_REPLICA: "0"}, map=THREE)
    beyond = pod("w-3", owner=owner, labels={well_known.TRAINING_REPLICA: "3"}, map=THREE)

    assert codes(state, worker) == {REASON_CODES["NODE_UNSCHEDULABLE"], REASON_CODES["NOT_IN_MAP"]}
    assert "gpu-scheduling-map has no line for index 3" in sentence(
        refused(state, beyond).diagnosis
    )


def test_unreadable_index_names_its_expected_writer() -> None:
    odd = {well_known.TRAINING_REPLICA: "first"}
    worker = pod("w-0", owner="MPIJob.kubeflow.org/cifar", labels=odd, map=THREE)

    assert "(what numbers the pods of a MPIJob.kubeflow.org is no number on this one)" in sentence(
        refused(cluster(*OTHERS), worker).diagnosis
    )


def test_many_unavailable_lines_are_counted_and_three_are_named() -> None:
    text = "\n".join(f"{index}=gone{index}:0" for index in range(40))

    told = sentence(refused(cluster(*OTHERS), replica("a", text)).diagnosis)

    assert told.count("no node is named") == 3
    assert told.endswith("; 37 more lines are not available either.")


# --- work ------------------------------------------------------------------------------------


def test_a_node_that_many_lines_name_is_compared_with_the_pod_once() -> None:
    text = "\n".join(f"{index}=n0:{index}" for index in range(1000)) + "\n1000=n1:0"
    state, tight = (
        cluster(node("n0", cordoned=True), *OTHERS),
        default_pipeline(Settings(maps_allow="all", decision_steps_max=1010)),
    )

    assert placed(state, replica("a", text), tight).index == 1000


def test_lines_beyond_the_step_budget_are_counted() -> None:
    text = "\n".join(f"{index}=gone{index}:0" for index in range(100)) + "\n100=n1:0"
    tight = default_pipeline(Settings(maps_allow="all", decision_steps_max=50))

    refusal = refused(cluster(*OTHERS), replica("a", text), tight)

    assert refusal.diagnosis.codes() == {REASON_CODES["TOO_COMPLEX"]}
    assert (
        "to try the 101 lines of gpu-scheduling-map that no sibling holds takes more than 50"
        in (sentence(refusal.diagnosis))
    )
    assert placed(cluster(*OTHERS), replica("a", text)).index == 100


# --- pods with another map -------------------------------------------------------------------

RAY, TORCH = "RayCluster.ray.io/r", "PyTorchJob.kubeflow.org/t"
ROLES: list[Any] = [
    pytest.param(RAY, {}, id="groups-whose-pods-have-no-number"),
    pytest.param(TORCH, {well_known.TRAINING_REPLICA: "0"}, id="roles-that-count-from-0-each"),
]


@pytest.mark.parametrize(("owner", "labels"), ROLES)
def test_pods_with_another_map_text_use_separate_indexes(
    owner: str, labels: dict[str, str]
) -> None:
    state = cluster(*OTHERS)
    for name, text in (("head", "0=n1:0,1"), ("small", "0=n2:0"), ("large", "0=n2:1\n1=n2:2")):
        assert settle(state, pod(name, owner=owner, labels=labels, map=text)).index == 0


def test_rollout_with_an_edited_map_prefers_free_lines() -> None:
    state = cluster(*OTHERS)
    settle(state, pod("web-a", owner="Deployment/web@r1", map="0=n1:0"))
    edited = "0=n1:0\n1=n2:0"

    newer = [
        settle(state, pod(f"web-{name}", owner="Deployment/web@r2", map=edited)) for name in "bc"
    ]

    assert [placement.index for placement in newer] == [1, 0], "at the end the rollout must finish"


def test_a_device_of_a_sibling_that_is_being_deleted_is_waited_for() -> None:
    """A rollout with an edited map and maxSurge 0: two revisions never run on one GPU."""
    state = cluster(*OTHERS)
    old = pod(
        "web-a",
        owner="Deployment/web@r1",
        map="0=n1:0",
        node="n1",
        devices="gpu:0",
        index=0,
        deleting=True,
    )
    state.upsert_pod(old)
    newer = pod("web-b", owner="Deployment/web@r2", map="0=n1:0\n1=gone:0")

    assert requeue_condition(refused(state, newer).diagnosis).causes >= {
        RequeueCause.FREED,
        RequeueCause.NODE,
    }
    assert (
        "line 0 on node n1: node(s) where GPU 0 is held by pod web-a until that pod is deleted;"
        in sentence(refused(state, newer).diagnosis)
    )
    state.delete_pod(old.uid)
    assert settle(state, newer).index == 0


def test_other_owner_with_another_map_text_never_shares_a_device() -> None:
    state = cluster(node("n1"))
    settle(state, pod("web-a", owner=WEB, map="0=n1:0"))

    other = pod("db-a", owner="Deployment/db", map="0=n1:0\n1=n1:1")
    assert settle(state, other).index == 1


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
def test_owner_kind_of_another_group_is_another_owner(kind: str) -> None:
    """Its pods are numbered by no rule of Kubernetes, and share nothing with the real one's."""
    labels = {well_known.JOB_INDEX: "1", well_known.STATEFULSET_INDEX: "1"}
    state = cluster(node("n1"))
    real = pod("w-1", owner=f"{kind}/w", labels=labels, map="0=n1:0\n1=n1:1")
    foreign = pod("x-1", owner=f"{kind}.x.example/w", labels=labels, map="0=n1:0\n1=n1:1")

    assert settle(state, foreign).index == 0
    assert real.workload != foreign.workload
    assert real.sharing != foreign.sharing
