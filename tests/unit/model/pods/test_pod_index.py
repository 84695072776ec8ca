"""Where the index of a pod in a map comes from."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.limits import MAP_INDEX_MAX
from scheduler.model.pods.index_readers import Marks
from scheduler.model.pods.pod_index import IndexRule, index_of, indexed
from scheduler.model.pods.pod_parts import Owner

ASSIGNED, UNKNOWN = IndexRule.ASSIGNED, IndexRule.UNKNOWN
JOB = {well_known.JOB_INDEX: "2"}
SET_LABEL = {well_known.STATEFULSET_INDEX: "4"}


@pytest.mark.contract("S2-4", "S2-5", "S2-B9")
@pytest.mark.parametrize(
    ("kind", "name", "labels", "index"),
    [
        pytest.param("StatefulSet", "w-3", {}, 3, id="set"),
        pytest.param("StatefulSet", "w-5", {}, 5, id="set-with-start-ordinal"),
        pytest.param("StatefulSet", "w-3", SET_LABEL, 4, id="label-wins-over-name"),
        pytest.param("StatefulSet", "w-3", {well_known.STATEFULSET_INDEX: "x"}, 3, id="odd-label"),
        pytest.param("StatefulSet", "w", {}, IndexRule.UNKNOWN, id="set-without-ordinal"),
        pytest.param(None, "w-01", {}, IndexRule.UNKNOWN, id="bare-leading-zero"),
        pytest.param(None, "w-1", {}, 1, id="bare"),
        pytest.param(None, "w-0", {}, 0, id="bare-zero"),
        pytest.param(None, "pod--1", {}, 1, id="two-dashes"),
        pytest.param(None, "1", {}, IndexRule.UNKNOWN, id="bare-all-digits"),
        pytest.param(None, "w-\u0663", {}, IndexRule.UNKNOWN, id="bare-arabic-digit"),
        pytest.param(None, "llama-6bd69b846c-mvtrx", {}, IndexRule.UNKNOWN, id="bare-letters"),
        pytest.param(None, "w-99999999999999999999", {}, IndexRule.UNKNOWN, id="bare-overflow"),
        pytest.param(None, f"w-{MAP_INDEX_MAX}", {}, MAP_INDEX_MAX, id="bare-largest"),
        pytest.param(None, f"w-{MAP_INDEX_MAX + 1}", {}, IndexRule.UNKNOWN, id="bare-too-large"),
        pytest.param(None, "w-1", SET_LABEL, 1, id="bare-ignores-a-forged-set-label"),
        pytest.param(None, "w-1", JOB, 1, id="bare-ignores-a-forged-job-label"),
        pytest.param("ReplicaSet", "llama-70-6bd69b846c-22222", {}, IndexRule.ASSIGNED, id="hash"),
        pytest.param("ReplicaSet", "w-3", JOB, IndexRule.ASSIGNED, id="set-of-replicas"),
        pytest.param("Job", "train-2-x9f4k", JOB, 2, id="indexed-job"),
        pytest.param("Job", "", JOB, 2, id="indexed-job-before-it-has-a-name"),
        pytest.param("Job", "train-x9f4k", {}, IndexRule.ASSIGNED, id="job-without-index"),
        pytest.param("Job", "train-22222", {}, IndexRule.ASSIGNED, id="job-digits"),
        pytest.param(
            "Job", "t", {well_known.JOB_INDEX: "02"}, IndexRule.UNKNOWN, id="odd-job-label"
        ),
        pytest.param("DaemonSet", "w-3", {}, IndexRule.ASSIGNED, id="daemon-set"),
        pytest.param(None, "my-app-0", {}, 0, id="seed-0"),
        pytest.param(None, "gpu-workload-1", {}, 1, id="seed-1"),
        pytest.param(None, "test-pod-42", {}, 42, id="seed-42"),
        pytest.param(None, "service-deployment-123", {}, 123, id="seed-123"),
        pytest.param(None, "my-app-abc", {}, IndexRule.UNKNOWN, id="seed-abc"),
        pytest.param(None, "no-index", {}, IndexRule.UNKNOWN, id="seed-no-index"),
        pytest.param(None, "test-pod-", {}, IndexRule.UNKNOWN, id="seed-dash-at-the-end"),
        pytest.param(None, "", {}, IndexRule.UNKNOWN, id="seed-no-name"),
    ],
)
def test_index_source(
    kind: str | None, name: str, labels: dict[str, str], index: int | IndexRule
) -> None:
    """The controller's label first, then a canonical name suffix, else the scheduler assigns."""
    owner = None if kind is None else Owner(kind, "x", "u")

    assert index_of(name=name, owner=owner, labels=labels, annotations={}) == index


TRAINING = "MPIJob.kubeflow.org"
RAY, GROVE = "RayCluster.ray.io", "PodClique.grove.io"


def of_job(job: str, jobs: str, within: str | None, **more: str) -> dict[str, str]:
    """Labels of a pod of a JobSet's Job: which of how many, and which pod of it."""
    labels = {
        well_known.JOBSET_JOB: job,
        well_known.JOBSET_JOBS: jobs,
        well_known.JOBSET_GLOBAL_JOB: job,
    }
    return {**labels, **({} if within is None else {well_known.JOB_INDEX: within}), **more}


def of_jobs_group(group: str, job: str, jobs: str, within: str) -> dict[str, str]:
    """Job 1 of 2 of its replicated job, which shares a group with others."""
    named = {
        well_known.JOBSET_GROUP: group,
        well_known.JOBSET_GROUP_JOB: job,
        well_known.JOBSET_GROUP_JOBS: jobs,
    }
    return of_job("1", "2", within, **named)


def of_group(group: str, worker: str) -> dict[str, str]:
    return {
        well_known.LWS_GROUP: group,
        well_known.LWS_WORKER: worker,
        well_known.STATEFULSET_INDEX: worker,
    }


def of_replica(replica: str, host: str) -> dict[str, str]:
    return {well_known.RAY_REPLICA: replica, well_known.RAY_HOST: host}


#: Owner, labels, lines of the map, index.
NUMBERED = [
    pytest.param(TRAINING, {well_known.TRAINING_REPLICA: "1"}, 2, 1, id="training-replica"),
    pytest.param("PyTorchJob.kubeflow.org", {well_known.TRAINING_REPLICA: "0"}, 1, 0, id="pytorch"),
    pytest.param(
        TRAINING, {well_known.TRAINING_REPLICA: "01"}, 2, UNKNOWN, id="training-leading-zero"
    ),
    pytest.param(
        TRAINING, {well_known.TRAINING_REPLICA: "9" * 400}, 2, UNKNOWN, id="training-huge"
    ),
    pytest.param(TRAINING, {}, 2, ASSIGNED, id="training-without-a-number"),
    pytest.param(
        "MPIJob", {well_known.TRAINING_REPLICA: "1"}, 2, ASSIGNED, id="no-group-no-belief"
    ),
    pytest.param("MPIJob.x.example", {well_known.TRAINING_REPLICA: "1"}, 2, ASSIGNED, id="foreign"),
    pytest.param(
        "ReplicaSet", {well_known.TRAINING_REPLICA: "1"}, 2, ASSIGNED, id="label-on-a-replica"
    ),
    pytest.param("Job", of_job("2", "4", "0"), 4, 2, id="jobs-of-one-pod"),
    pytest.param("Job", of_job("0", "1", "3"), 4, 3, id="one-job-of-many-pods"),
    pytest.param("Job", of_job("1", "2", "1"), 8, 5, id="jobs-of-many-pods"),
    pytest.param("Job", of_job("1", "2", "4"), 8, 12, id="a-pod-more-than-its-share-has-no-line"),
    pytest.param("Job", of_job("1", "2", None), 2, 1, id="jobs-without-indexes-of-one-pod"),
    pytest.param("Job", of_job("1", "2", None), 4, ASSIGNED, id="jobs-without-indexes-of-many"),
    pytest.param(
        "Job",
        of_job("0", "4", "0")
        | {well_known.JOBSET_GLOBAL_JOB: "1", well_known.JOBSET_GLOBAL_JOBS: "5"},
        5,
        1,
        id="one-map-for-all-jobs-of-the-set",
    ),
    pytest.param("Job", of_job("3", "4", "0"), 5, 3, id="a-spare-line"),
    pytest.param("Job", of_job("1", "2", "1"), 5, 3, id="a-spare-line-beside-shares"),
    pytest.param("Job", of_job("3", "4", "1"), 5, 6, id="more-pods-than-the-lines-allow"),
    pytest.param("Job", of_job("3", "4", "0"), 2, 3, id="fewer-lines-than-jobs"),
    pytest.param("Job", {well_known.JOBSET_GLOBAL_JOB: "2"}, 4, 2, id="the-global-number-alone"),
    pytest.param(
        "Job",
        {well_known.JOBSET_GLOBAL_JOB: "2", well_known.JOB_INDEX: "1"},
        4,
        ASSIGNED,
        id="two-numbers-without-a-count",
    ),
    pytest.param("Job", of_jobs_group("inference", "3", "4", "1"), 8, 7, id="a-group-of-jobs"),
    pytest.param("Job", of_jobs_group("default", "3", "4", "1"), 8, 5, id="no-group-of-the-user"),
    pytest.param("Job", of_jobs_group("inference", "3", "4", "1"), 6, 4, id="group-does-not-fit"),
    pytest.param("Job", of_job("x", "2", "0"), 4, UNKNOWN, id="odd-number-of-a-job"),
    pytest.param("Job", of_job("1", "2", "x"), 4, UNKNOWN, id="odd-number-in-a-job"),
    pytest.param("Job.batch.volcano.sh", of_job("1", "2", "0"), 4, ASSIGNED, id="foreign-job"),
    pytest.param("StatefulSet", of_group("0", "0"), 6, 0, id="leader-of-the-first-group"),
    pytest.param("StatefulSet", of_group("1", "0"), 6, 3, id="leader-of-the-second-group"),
    pytest.param("StatefulSet", of_group("1", "2"), 6, 5, id="worker-of-the-second-group"),
    pytest.param("StatefulSet", of_group("1", "x"), 6, UNKNOWN, id="odd-worker"),
    pytest.param("StatefulSet", of_group(str(MAP_INDEX_MAX), "1"), 6, UNKNOWN, id="beyond"),
    pytest.param("StatefulSet", of_group("3f2a1b", "1"), 6, ASSIGNED, id="group-with-a-hash"),
    pytest.param(
        "StatefulSet",
        {well_known.LWS_WORKER: "0", well_known.STATEFULSET_INDEX: "1"},
        6,
        3,
        id="leader-before-the-webhook-of-its-set",
    ),
    pytest.param(
        "StatefulSet",
        {well_known.LWS_GROUP: "1", well_known.STATEFULSET_INDEX: "2"},
        6,
        5,
        id="worker-before-the-webhook-of-its-set",
    ),
    pytest.param(
        "StatefulSet.apps.kruise.io",
        {well_known.STATEFULSET_INDEX: "1"},
        2,
        ASSIGNED,
        id="foreign-set",
    ),
    pytest.param(RAY, {well_known.RAY_REPLICA: "2"}, 3, 2, id="ray-replica-of-one-host"),
    pytest.param(RAY, of_replica("0", "1"), 4, 1, id="ray-host-of-the-first-replica"),
    pytest.param(RAY, of_replica("1", "1"), 4, ASSIGNED, id="ray-host-of-another-replica"),
    pytest.param(RAY, {well_known.RAY_HOST: "1"}, 4, 1, id="ray-host-alone"),
    pytest.param(RAY, {}, 4, ASSIGNED, id="ray-of-an-earlier-version"),
    pytest.param(GROVE, {well_known.GROVE_POD: "1"}, 4, 1, id="pod-of-a-clique"),
    pytest.param(
        GROVE,
        {well_known.GROVE_POD: "1", well_known.GROVE_REPLICA: "1"},
        4,
        ASSIGNED,
        id="clique-of-another",
    ),
    pytest.param("", {well_known.KUEUE_POD: "1"}, 2, 1, id="pod-of-a-kueue-group"),
    pytest.param("", {well_known.TRAINING_REPLICA: "1"}, 2, 7, id="bare-pod-with-a-forged-label"),
    pytest.param("Pod", {}, 2, ASSIGNED, id="pod-of-a-driver-without-a-number"),
]


@pytest.mark.contract("S2-5", "S2-B9")
@pytest.mark.parametrize(("word", "labels", "lines", "index"), NUMBERED)
def test_the_number_that_a_controller_gives(
    word: str, labels: dict[str, str], lines: int, index: int | IndexRule
) -> None:
    """Only below an owner of that API group and kind; else the name of a bare pod, or none."""
    kind, _, group = word.partition(".")
    owner = Owner(kind, "x", "u", group) if word else None
    found = index_of(
        name="w-7" if not word else "w-x",
        owner=owner,
        labels=labels,
        annotations={well_known.LWS_SIZE: "3"},
        lines=lines,
    )

    assert found == index


def test_group_of_unknown_size_is_numbered_in_its_first_group_only() -> None:
    owner = Owner("StatefulSet", "x", "u")
    found = [
        index_of(name="l-1", owner=owner, labels=of_group(group, "1"), annotations={})
        for group in "01"
    ]

    assert found == [1, ASSIGNED]


@pytest.mark.parametrize(
    ("owner", "labels", "origin"),
    [
        pytest.param("Job", of_job("1", "2", "0"), "jobset", id="job-set"),
        pytest.param("Job", JOB, "pkg/controller/job", id="job"),
        pytest.param("StatefulSet", of_group("1", "0"), "lws", id="leader-worker-set"),
        pytest.param("StatefulSet", SET_LABEL, "statefulset", id="stateful-set"),
        pytest.param(RAY, of_replica("1", "1"), "kuberay", id="interchangeable-by-a-row"),
        pytest.param("ReplicaSet", JOB, "", id="no-row"),
    ],
)
def test_the_row_that_gives_the_index_is_known(
    owner: str, labels: dict[str, str], origin: str
) -> None:
    kind, _, group = owner.partition(".")
    found = indexed(Owner(kind, "x", "u", group), Marks("w-9", labels, {}, 4)).source

    assert origin in ("" if found is None else found.origin)
    assert (found is None) == (origin == "")


@pytest.mark.parametrize(
    ("name", "index"),
    [("pi-exec-3", 3), ("pi-exec-03", UNKNOWN), ("pi-exec-", UNKNOWN), ("pi-3", ASSIGNED)],
)
def test_executors_of_a_driver_pod_are_numbered_by_their_name(
    name: str, index: int | IndexRule
) -> None:
    driver = Owner("Pod", "pi-driver", "u")

    assert index_of(name=name, owner=driver, labels={}, annotations={}) == index
