"""How many pods start together, as the objects of JobSet, KubeRay and the MPI Operator say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.limits import GANG_MEMBERS_MAX
from scheduler.model.owners.owner_minimum import gang_of_owner
from scheduler.model.pods.gang import GangKey, GangSource

JOB_SET, RAY, MPI = GangSource.JOB_SET, GangSource.RAY_CLUSTER, GangSource.MPI_JOB
Json = dict[str, Any]


def roles(source: GangSource, name: str, body: Json) -> tuple[int | None, dict[str, int]]:
    """The minimum of a gang, and of its roles."""
    group = gang_of_owner(GangKey("team", source.value, name), msgspec.json.encode(body))
    assert group is not None
    assert group.key == GangKey("team", source.value, name)
    return group.minimum, group.roles


def job(name: str, replicas: int, parallelism: int, **more: Any) -> Json:
    template = {"spec": {"parallelism": parallelism, "completions": more.pop("completions", None)}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def job_set(*jobs: Json, order: str = "AnyOrder", **status: tuple[int, int]) -> Json:
    """``status`` are the ready and the succeeded Jobs of a replicated job."""
    now = [{"name": name, "ready": one[0], "succeeded": one[1]} for name, one in status.items()]
    spec = {"replicatedJobs": list(jobs), "startupPolicy": {"startupPolicyOrder": order}}
    return {"spec": spec, "status": {"replicatedJobsStatus": now}}


DRIVER, WORKERS = job("driver", 1, 1), job("workers", 2, 4)
AFTER = job("workers", 2, 4, dependsOn=[{"name": "driver", "status": "Complete"}])
IN_ORDER = "InOrder"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(job_set(DRIVER, WORKERS), {"driver": 1, "workers": 8}, id="all-at-once"),
        pytest.param(job_set(job("few", 2, 8, completions=3)), {"few": 6}, id="few-completions"),
        pytest.param(job_set(DRIVER, WORKERS, order=IN_ORDER), {"driver": 1}, id="in-order"),
        pytest.param(
            job_set(DRIVER, WORKERS, order=IN_ORDER, driver=(1, 0)),
            {"driver": 1, "workers": 8},
            id="in-order-and-the-first-runs",
        ),
        pytest.param(
            job_set(DRIVER, WORKERS, order=IN_ORDER, driver=(0, 1)),
            {"workers": 8},
            id="in-order-and-the-first-has-ended",
        ),
        pytest.param(job_set(DRIVER, AFTER), {"driver": 1}, id="depends-on"),
        pytest.param(job_set(DRIVER, AFTER, driver=(1, 0)), {"driver": 1}, id="only-ready"),
        pytest.param(job_set(DRIVER, AFTER, driver=(0, 1)), {"workers": 8}, id="complete"),
    ],
)
def test_jobs_of_a_jobset_that_start_together(body: Json, expected: dict[str, int]) -> None:
    assert roles(JOB_SET, "train", body) == (sum(expected.values()), expected)


def test_a_replicated_job_is_a_gang_by_itself() -> None:
    body = job_set(DRIVER, WORKERS, order=IN_ORDER)

    assert roles(JOB_SET, "train/workers", body) == (8, {})


def test_followers_in_a_job_are_a_gang_without_the_first_pod() -> None:
    body = job_set(DRIVER, WORKERS)

    assert roles(JOB_SET, "train/workers/1", body) == (3, {})
    assert roles(JOB_SET, "train/driver/0", body) == (None, {})


def ray(*, autoscaling: bool = False, **groups: Json) -> Json:
    specs = [{"groupName": name, **fields} for name, fields in groups.items()]
    return {"spec": {"enableInTreeAutoscaling": autoscaling, "workerGroupSpecs": specs}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            ray(cpu={"replicas": 8}, gpu={"replicas": 4}),
            {"headgroup": 1, "cpu": 8, "gpu": 4},
            id="groups",
        ),
        pytest.param(
            ray(autoscaling=True, gpu={"replicas": 4, "minReplicas": 2}),
            {"headgroup": 1, "gpu": 2},
            id="autoscaling",
        ),
        pytest.param(
            ray(gpu={"replicas": 2, "numOfHosts": 4}), {"headgroup": 1, "gpu": 8}, id="hosts"
        ),
        pytest.param(ray(gpu={"minReplicas": 3}), {"headgroup": 1, "gpu": 3}, id="no-replicas"),
        pytest.param(
            ray(gpu={"replicas": 3, "suspend": True}), {"headgroup": 1}, id="suspended-group"
        ),
    ],
)
def test_the_head_and_the_workers_of_a_ray_cluster(body: Json, expected: dict[str, int]) -> None:
    assert roles(RAY, "tune", body) == (sum(expected.values()), expected)


def test_the_launcher_of_an_mpi_job_does_not_count() -> None:
    """MPI#608: it is created when all workers run."""
    specs = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 16}}

    assert roles(MPI, "cifar", {"spec": {"mpiReplicaSpecs": specs}}) == (16, {})


def test_an_owner_without_the_role_defines_no_gang() -> None:
    key = GangKey("team", RAY.value, "tune/gone")

    assert gang_of_owner(key, msgspec.json.encode(ray(gpu={"replicas": 1}))) is None


def test_a_group_beyond_the_limit_waits() -> None:
    body = msgspec.json.encode(ray(gpu={"replicas": GANG_MEMBERS_MAX}))
    group = gang_of_owner(GangKey("team", RAY.value, "tune"), body)

    assert group is not None
    assert (group.minimum, group.roles) == (None, {})
    assert group.problem == f"more than {GANG_MEMBERS_MAX} pods"
