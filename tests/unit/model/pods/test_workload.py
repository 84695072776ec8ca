"""The workload of a pod, and labels that must not change it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.pods.pod_parts import Owner, owner_of
from tests.builders import pod

HASH = {well_known.POD_TEMPLATE_HASH: "5d9f"}
ROLLOUT = {well_known.ROLLOUT_TEMPLATE_HASH: "5d9f"}
JOB_SET = {
    well_known.JOBSET_NAME: "train",
    well_known.JOBSET_PART: "workers",
    well_known.JOBSET_JOB: "1",
}
LWS = {well_known.LWS_NAME: "lws", well_known.LWS_GROUP: "1"}
GROVE = {well_known.GROVE_SET: "inf", well_known.GROVE_REPLICA: "1"}


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        pytest.param("ReplicaSet/web-5d9f", HASH, "Deployment/web", id="deployment"),
        pytest.param("ReplicaSet/web-77aa", HASH, None, id="a-hash-that-is-not-the-owners"),
        pytest.param("ReplicaSet.x.example/web-5d9f", HASH, None, id="foreign-replica-set"),
        pytest.param("ReplicaSet/web-5d9f", ROLLOUT, "Rollout.argoproj.io/web", id="rollout"),
        pytest.param("ReplicaSet/web-77aa", ROLLOUT, None, id="a-hash-of-another-rollout"),
        pytest.param("Job/train-workers-1", JOB_SET, "JobSet.jobset.x-k8s.io/train", id="job-set"),
        pytest.param("Job/other-workers-1", JOB_SET, None, id="labels-of-another-job-set"),
        pytest.param("Job.batch.volcano.sh/train-workers-1", JOB_SET, None, id="foreign-job"),
        pytest.param("Job/--", {}, None, id="a-job-without-labels"),
        pytest.param(
            "StatefulSet/lws", LWS, "LeaderWorkerSet.leaderworkerset.x-k8s.io/lws", id="leaders"
        ),
        pytest.param(
            "StatefulSet/lws-1", LWS, "LeaderWorkerSet.leaderworkerset.x-k8s.io/lws", id="workers"
        ),
        pytest.param("StatefulSet/db", LWS, None, id="labels-of-another-leader-worker-set"),
        pytest.param(
            "PodClique.grove.io/inf-1-decode", GROVE, "PodCliqueSet.grove.io/inf", id="clique"
        ),
        pytest.param("PodClique.grove.io/mine-1-decode", GROVE, None, id="another-clique"),
        pytest.param("RayCluster.ray.io/r", {}, None, id="the-direct-owner-is-the-top"),
    ],
)
def test_workload_of_a_pod(owner: str, labels: dict[str, str], workload: str | None) -> None:
    """Where labels and the owner's name do not agree, the direct owner with its uid counts."""
    word, _, name = owner.partition("/")

    found = pod("p", owner=owner, labels=labels).workload

    assert found == f"team/{workload or f'{word}/{name}/{word}-{name}'}"


@pytest.mark.parametrize(
    ("version", "kind", "word"),
    [
        ("apps/v1", "ReplicaSet", "ReplicaSet"),
        ("apps/v1beta9", "StatefulSet", "StatefulSet"),
        ("batch/v1", "Job", "Job"),
        ("batch.volcano.sh/v1alpha1", "Job", "Job.batch.volcano.sh"),
        ("apps.kruise.io/v1", "StatefulSet", "StatefulSet.apps.kruise.io"),
        ("v1", "ReplicaSet", "ReplicaSet.core"),
        ("batch/v1", "ReplicaSet", "ReplicaSet.batch"),
        ("v1", "Pod", "Pod"),
        ("ray.io/v1", "RayCluster", "RayCluster.ray.io"),
        ("x.example/v1", "Pod", "Pod.x.example"),
    ],
)
def test_an_owner_is_known_by_its_api_group_and_kind(version: str, kind: str, word: str) -> None:
    assert owner_of(version, kind, "x", "u").word == word


def test_owner_from_an_older_state_version_is_a_builtin_kind() -> None:
    """PodMigrations and snapshots name owners without a group."""
    assert Owner("ReplicaSet", "w", "u") == owner_of("apps/v1", "ReplicaSet", "w", "u")


@pytest.mark.parametrize("labels", [HASH, ROLLOUT], ids=["deployment", "rollout"])
def test_the_hash_of_the_template_is_the_revision(labels: dict[str, str]) -> None:
    assert pod("p", owner="ReplicaSet/web-5d9f", labels=labels).revision == "5d9f"


@pytest.mark.parametrize("forged", [JOB_SET, LWS, GROVE, HASH, ROLLOUT])
def test_labels_never_join_namespaces(forged: dict[str, Any]) -> None:
    mine, theirs = (
        pod("p", namespace=space, owner="Job/train-workers-1", labels=forged)
        for space in ("one", "two")
    )

    assert mine.workload != theirs.workload
