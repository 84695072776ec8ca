"""Which line of its map a pod takes, and which pods it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import REASON_CODES
from tests.builders import as_bound, cluster, codes, node, placed, pod, refused, settle

MAP = "\n".join(f"{index}=n1:{index}" for index in range(4))
WEB, SET, JOB = "Deployment/web@r1", "StatefulSet/w", "Job/train"

LWS = {well_known.LWS_NAME: "lws", well_known.LWS_GROUP: "1", well_known.LWS_WORKER: "1"}
JOB_SET = {
    well_known.JOBSET_NAME: "t",
    well_known.JOBSET_PART: "w",
    well_known.JOBSET_JOB: "1",
    well_known.JOBSET_JOBS: "2",
}

#: Field case C04: name, what else is known of the pod, the index it takes.
INDEXES: list[Any] = [
    pytest.param("w-3", {"owner": SET}, 3, id="set-by-name"),
    pytest.param(
        "w-3",
        {"owner": SET, "labels": {well_known.STATEFULSET_INDEX: "2"}},
        2,
        id="label-before-name",
    ),
    pytest.param("my-app-0", {}, 0, id="bare-pod"),
    pytest.param(
        "train-2-x9f4k", {"owner": JOB, "labels": {well_known.JOB_INDEX: "2"}}, 2, id="job"
    ),
    pytest.param("train-x9f4k", {"owner": JOB}, 0, id="job-without-indexes-is-assigned"),
    pytest.param("web-7d9f8-22222", {"owner": WEB}, 0, id="digits-of-a-hash-are-no-index"),
    pytest.param(
        "cifar-worker-2",
        {"owner": "MPIJob.kubeflow.org/cifar", "labels": {well_known.TRAINING_REPLICA: "2"}},
        2,
        id="replica-of-a-training-job",
    ),
    pytest.param(
        "t-w-1-0-x",
        {"owner": "Job/t-w-1", "labels": {**JOB_SET, well_known.JOB_INDEX: "1"}},
        3,
        id="second-job-of-two-counts-from-line-2",
    ),
    pytest.param(
        "lws-1-1",
        {"owner": "StatefulSet/lws-1", "labels": LWS, "annotations": {well_known.LWS_SIZE: "2"}},
        3,
        id="worker-of-the-second-group-of-two",
    ),
    pytest.param(
        "ray-w-x",
        {"owner": "RayCluster.ray.io/ray", "labels": {well_known.RAY_REPLICA: "2"}},
        2,
        id="replica-of-a-ray-worker-group",
    ),
    pytest.param("pi-exec-2", {"owner": "Pod/pi-driver"}, 2, id="spark-executor"),
    pytest.param("w", {"labels": {well_known.KUEUE_POD: "2"}}, 2, id="pod-of-a-kueue-group"),
]


@pytest.mark.contract("S2-4", "S2-5", "S2-B9")
@pytest.mark.parametrize(("name", "fields", "index"), INDEXES)
def test_index_source(name: str, fields: Any, index: int) -> None:
    placement = placed(cluster(node()), pod(name, map=MAP, **fields))

    assert (placement.index, placement.devices.numbers) == (index, (index,))


@pytest.mark.contract("S2-5", "S2-9")
@pytest.mark.parametrize(
    "name",
    [
        "my-app-abc",
        "solo",
        "test-pod-",
        "w-01",
        "llama-70-6bd69b846c-mvtrx",
        "w-99999999999999999999",
    ],
)
def test_a_bare_pod_without_a_number_has_no_index(name: str) -> None:
    state, mapped = cluster(node()), pod(name, map=MAP)

    assert codes(state, mapped) == {REASON_CODES["INDEX_UNKNOWN"]}
    assert sentence(refused(state, mapped).diagnosis) == (
        "0/1 nodes are available: the pod's index for gpu-scheduling-map is unknown"
        " (a bare pod's name must end in -<number>)."
    )


@pytest.mark.contract("S2-B9")
@pytest.mark.parametrize("owner", [WEB, JOB, "CloneSet/web"])
def test_interchangeable_pods_take_the_lowest_free_index_at_bind(owner: str) -> None:
    state = cluster(node())
    first, second, third = (
        settle(state, pod(f"web-{name}", owner=owner, map=MAP)).index for name in "abc"
    )
    assert (first, second, third) == (0, 1, 2)

    state.delete_pod("team-web-b")
    assert settle(state, pod("web-d", owner=owner, map=MAP)).index == 1
    assert settle(state, pod("web-e", owner=owner, map=MAP)).index == 3


def test_indexes_survive_a_restart_through_the_annotation() -> None:
    state = cluster(node())
    bound = [as_bound(settle(state, pod(f"web-{n}", owner=WEB, map=MAP))) for n in "ab"]

    new_instances = cluster(node(), *bound)
    assert settle(new_instances, pod("web-c", owner=WEB, map=MAP)).index == 2


def test_replacement_waits_for_the_previous_holder_of_its_index() -> None:
    """An indexed Job replaces a pod while the old one still spends its grace period."""
    labels = {well_known.JOB_INDEX: "1"}
    old = pod(
        "train-1-a",
        owner=JOB,
        labels=labels,
        map=MAP,
        node="n1",
        index=1,
        devices="gpu:1",
        deleting=True,
    )
    state = cluster(node(), old)
    new = pod("train-1-b", owner=JOB, labels=labels, map=MAP)

    assert codes(state, new) == {REASON_CODES["INDEX_HELD"]}
    assert "index 1 is held by pod train-1-a until that pod is deleted" in sentence(
        refused(state, new).diagnosis
    )
    state.delete_pod(old.uid)
    assert settle(state, new).index == 1


def test_more_replicas_than_lines_wait_for_a_sibling() -> None:
    state = cluster(node())
    for name in "ab":
        settle(state, pod(f"web-{name}", owner=WEB, map="0=n1:0\n1=n1:1"))
    late = pod("web-c", owner=WEB, map="0=n1:0\n1=n1:1")

    assert codes(state, late) == {REASON_CODES["NO_FREE_MAP_LINE"]}
    assert sentence(refused(state, late).diagnosis) == (
        "0/1 nodes are available: all 2 indexes of gpu-scheduling-map are held by its siblings."
    )


def test_surging_rollout_gets_advice() -> None:
    state = cluster(node())
    settle(state, pod("web-a", owner="Deployment/web@r1", map="0=n1:0"))
    newer = pod("web-b", owner="Deployment/web@r2", map="0=n1:0")

    assert codes(state, newer) == {REASON_CODES["INDEX_HELD_BY_OLDER_REVISION"]}
    assert sentence(refused(state, newer).diagnosis) == (
        "0/1 nodes are available: IndexHeldByOlderRevision: all 1 indexes of gpu-scheduling-map"
        " are held and an older revision holds some; use maxSurge: 0."
    )


def test_workloads_have_separate_indexes() -> None:
    state = cluster(node())
    settle(state, pod("web-a", owner=WEB, map="0=n1:0\n1=n1:1"))

    assert settle(state, pod("db-a", owner="Deployment/db", map="0=n1:2")).index == 0


def test_a_pod_without_a_line_does_not_disturb_its_siblings() -> None:
    """Field case C01: scaling beyond the map."""
    state = cluster(node())
    for number in range(4):
        settle(state, pod(f"w-{number}", owner=SET, map=MAP))

    assert codes(state, pod("w-4", owner=SET, map=MAP)) == {REASON_CODES["INDEX_NOT_IN_MAP"]}
