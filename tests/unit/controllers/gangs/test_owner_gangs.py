"""Gangs of owners in the loop, where an operator creates one role after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from scheduler.model import well_known
from scheduler.model.actions import ReadGroupOwner
from scheduler.model.pods.gang import GangSource, PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.unit.loop.loop_world import Stage, playing

MPI = {
    "training.kubeflow.org/job-name": "cifar",
    "training.kubeflow.org/operator-name": "mpi-operator",
}
JOB_SET = {
    "jobset.sigs.k8s.io/jobset-name": "train",
    "jobset.sigs.k8s.io/replicatedjob-name": "workers",
    "jobset.sigs.k8s.io/job-index": "0",
}
LWS = {"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": "0"}


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with playing(Stage()) as playing_stage:
        playing_stage.sync()
        playing_stage.see(ev.NodeUpdated(node(gpus=8)))
        yield playing_stage


def of_mpi(name: str, role: str) -> Pod:
    labels = {**MPI, "training.kubeflow.org/job-role": role}
    return pod(name, gpus=1, labels=labels, annotations={well_known.GROUP_FROM: "owner"})


def of_lws(name: str, worker: int, asked: str, **annotations: str) -> Pod:
    labels = {**LWS, "leaderworkerset.sigs.k8s.io/worker-index": str(worker)}
    told = {
        "leaderworkerset.sigs.k8s.io/size": "3",
        well_known.GROUP_FROM: asked,
        **{f"leaderworkerset.sigs.k8s.io/{key}": value for key, value in annotations.items()},
    }
    return pod(name, gpus=1, labels=labels, annotations=told)


def of_job_set(index: int) -> Pod:
    labels = {**JOB_SET, "batch.kubernetes.io/job-completion-index": str(index)}
    told = {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
        well_known.GROUP_FROM: "owner",
    }
    return pod(f"train-{index}", gpus=1, labels=labels, annotations=told)


def sent(stage: Stage) -> list[str]:
    return sorted(one.pod.name for one in stage.binder.sent)


async def test_missing_workers_of_an_mpi_job_hold_nothing_else(stage: Stage) -> None:
    """MPI#608: the launcher that comes last does not count, and other work goes on."""
    stage.see(ev.PodUpdated(of_mpi("cifar-worker-0", "worker")), ev.PodUpdated(pod("x", gpus=1)))
    await stage.quiet()
    stage.pass_time(1)
    await stage.quiet()
    [asked] = [one.key for one in stage.sent.actions if isinstance(one, ReadGroupOwner)]
    stage.see(ev.PodGroupUpdated(PodGroup("team", "cifar", 2, GangSource.MPI_JOB.value)))
    stage.pass_time(3)
    await stage.quiet()

    assert asked == PodGroup("team", "cifar", 2, GangSource.MPI_JOB.value).key
    assert sent(stage) == ["x"]
    reasons = [(name, reason, text) for name, reason, text in stage.recorder.said if name != "x"]
    assert reasons[-1] == (
        *("cifar-worker-0", "WaitingForGroup"),
        "0/1 nodes are available: waiting for members 1/2 of group cifar; no pod has the index 1.",
    )

    stage.see(ev.PodUpdated(of_mpi("cifar-worker-1", "worker")))
    stage.see(ev.PodUpdated(of_mpi("cifar-launcher", "launcher")))
    await stage.quiet()

    assert sent(stage) == ["cifar-launcher", "cifar-worker-0", "cifar-worker-1", "x"]


@pytest.mark.parametrize(
    ("asked", "annotations"),
    [
        pytest.param("role", {}, id="asked for"),
        pytest.param("owner", {"exclusive-topology": "rack"}, id="exclusive topology"),
    ],
)
async def test_a_leader_starts_alone_and_its_workers_as_a_group(
    stage: Stage, asked: str, annotations: dict[str, str]
) -> None:
    """LWS#379: the workers are created when the leader has a node."""
    stage.see(ev.PodUpdated(of_lws("vllm-0", 0, asked, **annotations)))
    await stage.quiet()
    assert sent(stage) == ["vllm-0"]
    stage.confirm(stage.binder.sent[0])
    stage.see(ev.PodUpdated(of_lws("vllm-0-1", 1, asked, **annotations)))
    await stage.quiet()
    assert sent(stage) == ["vllm-0"]

    stage.see(ev.PodUpdated(of_lws("vllm-0-2", 2, asked, **annotations)))
    await stage.quiet()

    assert sent(stage) == ["vllm-0", "vllm-0-1", "vllm-0-2"]


async def test_first_pod_of_an_exclusive_job_starts_before_followers(stage: Stage) -> None:
    """JS#458: JobSet admits the followers when that pod has a node."""
    stage.see(ev.PodUpdated(of_job_set(0)))
    await stage.quiet()
    assert sent(stage) == ["train-0"]
    stage.confirm(stage.binder.sent[0])
    stage.see(ev.PodUpdated(of_job_set(1)))
    stage.see(ev.PodGroupUpdated(PodGroup("team", "train/workers/0", 2, GangSource.JOB_SET.value)))
    await stage.quiet()
    assert sent(stage) == ["train-0"]

    stage.see(ev.PodUpdated(of_job_set(2)))
    await stage.quiet()

    assert sent(stage) == ["train-0", "train-1", "train-2"]


async def test_a_group_of_a_leader_worker_set_starts_as_one(stage: Stage) -> None:
    stage.see(*(ev.PodUpdated(of_lws(f"vllm-0-{rank}", rank, "owner")) for rank in (0, 1)))
    await stage.quiet()
    assert sent(stage) == []

    stage.see(ev.PodUpdated(of_lws("vllm-0-2", 2, "owner")))
    await stage.quiet()

    assert sent(stage) == ["vllm-0-0", "vllm-0-1", "vllm-0-2"]
