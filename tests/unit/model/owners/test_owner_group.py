"""Pods that ask for the gang of their owner."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.owners.owner_group import OwnerGroup, OwnerKind, owner_group
from tests.builders import pod

LWS = {"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": "1"}
LEADER = {**LWS, "leaderworkerset.sigs.k8s.io/worker-index": "0"}
WORKER = {**LWS, "leaderworkerset.sigs.k8s.io/worker-index": "3"}
SIZE = {"leaderworkerset.sigs.k8s.io/size": "4"}
FIRST = {**SIZE, "leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
JOBSET = {
    "jobset.sigs.k8s.io/jobset-name": "train",
    "jobset.sigs.k8s.io/replicatedjob-name": "workers",
}
IN_A_JOB = {**JOBSET, "jobset.sigs.k8s.io/job-index": "1"}
FIRST_OF_JOB = {**IN_A_JOB, "batch.kubernetes.io/job-completion-index": "0"}
FOLLOWER = {**IN_A_JOB, "batch.kubernetes.io/job-completion-index": "3"}
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
BY_SELECTOR = {**EXCLUSIVE, "alpha.jobset.sigs.k8s.io/node-selector": "true"}
HEAD = {"ray.io/cluster": "tune", "ray.io/group": "headgroup"}
RAY = {"ray.io/cluster": "tune", "ray.io/group": "gpus"}
MPI = {
    "training.kubeflow.org/job-name": "cifar",
    "training.kubeflow.org/job-role": "worker",
    "training.kubeflow.org/operator-name": "mpi-operator",
}
KIND = OwnerKind


@pytest.mark.parametrize(
    ("asked", "labels", "annotations", "expected"),
    [
        pytest.param(
            *("owner", LEADER, SIZE),
            OwnerGroup(KIND.LEADER_WORKER_SET, "vllm/1", minimum=4),
            id="lws-leader",
        ),
        pytest.param(
            *("owner", WORKER, SIZE),
            OwnerGroup(KIND.LEADER_WORKER_SET, "vllm/1", minimum=4),
            id="lws-worker",
        ),
        pytest.param("role", LEADER, SIZE, None, id="lws-leader-alone"),
        pytest.param("owner", LEADER, FIRST, None, id="lws-leader-comes-first"),
        pytest.param(
            *("owner", WORKER, FIRST),
            OwnerGroup(KIND.LEADER_WORKER_SET, "vllm/1/workers", minimum=3),
            id="lws-workers-follow",
        ),
        pytest.param("owner", LEADER, {}, None, id="lws-without-a-size"),
        pytest.param(
            "owner", JOBSET, {}, OwnerGroup(KIND.JOB_SET, "train", "workers"), id="jobset"
        ),
        pytest.param(
            "role", JOBSET, {}, OwnerGroup(KIND.JOB_SET, "train/workers"), id="jobset-role"
        ),
        pytest.param("owner", FIRST_OF_JOB, EXCLUSIVE, None, id="jobset-leader-comes-first"),
        *(
            pytest.param(
                *(asked, FOLLOWER, EXCLUSIVE),
                OwnerGroup(KIND.JOB_SET, "train/workers/1"),
                id=f"jobset-followers-{asked}",
            )
            for asked in ("owner", "role")
        ),
        pytest.param(
            *("owner", FIRST_OF_JOB, BY_SELECTOR),
            OwnerGroup(KIND.JOB_SET, "train", "workers"),
            id="jobset-all-are-admitted",
        ),
        pytest.param(
            "owner", HEAD, {}, OwnerGroup(KIND.RAY_CLUSTER, "tune", "headgroup"), id="ray-head"
        ),
        pytest.param("owner", RAY, {}, OwnerGroup(KIND.RAY_CLUSTER, "tune", "gpus"), id="ray"),
        pytest.param("role", HEAD, {}, None, id="ray-head-alone"),
        pytest.param("role", RAY, {}, OwnerGroup(KIND.RAY_CLUSTER, "tune/gpus"), id="ray-role"),
        pytest.param("owner", MPI, {}, OwnerGroup(KIND.MPI_JOB, "cifar"), id="mpi"),
        pytest.param(
            "owner",
            {**MPI, "training.kubeflow.org/job-role": "launcher"},
            {},
            None,
            id="mpi-launcher",
        ),
        pytest.param(
            "owner",
            {**MPI, "training.kubeflow.org/operator-name": "pytorchjob-controller"},
            {},
            None,
            id="another-training-job",
        ),
        pytest.param("owner", {"app": "web"}, {}, None, id="no-such-owner"),
    ],
)
def test_the_annotation_makes_a_gang(
    asked: str,
    labels: dict[str, str],
    annotations: dict[str, str],
    expected: OwnerGroup | None,
) -> None:
    one = pod("a", labels=labels, annotations={**annotations, well_known.GROUP_FROM: asked})

    assert owner_group(one.labels, one.annotations) == expected
    assert one.group == (expected.name if expected else "")
    assert (one.gang is not None) == (expected is not None)


@pytest.mark.parametrize("labels", [LEADER, JOBSET, RAY, MPI], ids=["lws", "jobset", "ray", "mpi"])
def test_no_owner_makes_a_gang_without_the_annotation(labels: dict[str, str]) -> None:
    one = pod("a", labels=labels, annotations=SIZE)

    assert (one.group, one.gang) == ("", None)


def test_another_value_of_the_annotation_is_a_problem() -> None:
    one = pod("a", labels=RAY, annotations={well_known.GROUP_FROM: "job"})

    assert one.problem == "gpu-scheduler.io/group-from: 'job' is neither 'owner' nor 'role'"


def test_the_groups_own_label_has_precedence() -> None:
    one = pod(
        "a",
        labels={**RAY, well_known.GROUP: "mine"},
        annotations={well_known.GROUP_FROM: "owner", well_known.GROUP_MIN: "2"},
    )

    assert one.gang is not None
    assert (one.group, one.gang.key.name) == ("mine", "mine")
