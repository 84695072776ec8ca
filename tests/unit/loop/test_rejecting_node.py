"""A node that refuses pods for hours, and what of it is seen: four failed pods in ten minutes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.model.pods.pod import Pod
from tests.builders import GPU, MIG_2G, node, pod
from tests.unit.loop.kubelet_simulation import Site, Verdict
from tests.unit.state.breakers.rejecting_node import ONE_IS_THE_MOST

MOST = 4
HOURS = 2
STEP_S = 5.0
STEPS = int(HOURS * 3600 / STEP_S)
UNHEALTHY = (
    "UnexpectedAdmissionError",
    "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy"
    " devices nvidia.com/gpu, which is unexpected",
)
SIZE = ("UnexpectedAdmissionError", ONE_IS_THE_MOST)
NODE = node("n1", gpus=4, cpu="64")
AWHILE = Callable[[int], bool]


def train(name: str) -> Pod:
    """A pod of a Deployment that wants one GPU."""
    return pod(name, gpus=1, owner="Deployment/train")


def pair(name: str) -> Pod:
    """A pod of a Deployment that wants two GPUs in one container."""
    return pod(name, gpus=2, owner="Deployment/pair")


def mine(name: str) -> Pod:
    """A pod of another owner that requests one GPU."""
    return pod(name, gpus=1, namespace="mine", requests={"cpu": "2"}, owner="Deployment/mine")


def refuses(_pod: Pod, _node: str) -> Verdict:
    """A kubelet that admits no pod."""
    return UNHEALTHY


async def keep(site: Site, replicas: int, make: Callable[[str], Pod] = train) -> None:
    """As a ReplicaSet does: as many pods as it should have wait or run."""
    of = make("x").workload
    for _ in range(replicas - sum(one.workload == of for one in site.living())):
        await site.create(make)


async def test_rejection_every_30s_trips_the_breaker() -> None:
    async with Site([NODE], refuses) as site:
        for step in range(STEPS):
            if step % 6 == 0 and not site.waiting:
                await site.create(train)
            await site.step(STEP_S)

    assert site.most_refused() == MOST
    assert len(site.failed) < 15, "and in the long run the pauses grow"


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("delay_s", [0.0, 10.0], ids=["at-once", "slowly"])
async def test_replicas_without_another_node_are_rejected_one_at_a_time(
    replicas: int, delay_s: float
) -> None:
    async with Site([NODE], refuses, delay_s) as site:
        for _ in range(STEPS):
            await keep(site, replicas)
            await site.step(STEP_S)

    assert site.most_refused() <= MOST
    assert len(site.failed) < 15


async def test_good_gpu_does_not_hide_a_bad_one() -> None:
    """The kubelet allocates any free GPU; on the broken one every pod is rejected."""
    admitted = 0

    def kubelet(_pod: Pod, _node: str) -> Verdict:
        nonlocal admitted
        if len(site.running) % 2:
            return UNHEALTHY
        admitted += 1
        return None

    async with Site([node("n1", gpus=2)], kubelet) as site:
        for _ in range(STEPS):
            await keep(site, 2)
            await site.step(STEP_S)
            for uid, (_, since) in list(site.running.items()):
                if site.now - since >= 20:
                    await site.end(uid)

    assert site.most_refused() == MOST
    assert admitted > 20, "it is used all the same"


async def test_restart_keeps_rejection_history() -> None:
    async with Site([NODE], refuses) as site:
        for step in range(STEPS):
            if step % 12 == 11:
                await site.restart()
            await keep(site, 1)
            await site.step(STEP_S)

    assert site.most_refused() <= MOST
    assert len(site.failed) < 15, "not even how long the pauses are"


async def test_new_leader_knows_the_rejection_history() -> None:
    async with Site([NODE], refuses) as site:
        await site.join()
        for step in range(STEPS):
            if step % 12 == 11:
                await site.hand_over()
            await keep(site, 2)
            await site.step(STEP_S)

    assert site.most_refused() <= MOST
    assert len(site.failed) < 15


async def test_each_resource_has_its_own_rejection_limit() -> None:
    def kubelet(one: Pod, _node: str) -> Verdict:
        resource = next(iter(one.gpu_requests))
        return f"OutOf{resource}", f"Node didn't have enough resource: {resource}"

    def sliced(name: str) -> Pod:
        return pod(name, mig={"2g.20gb": 1}, owner="Deployment/sliced")

    async with Site([node("n1", gpus=4, mig={"2g.20gb": 4})], kubelet) as site:
        for _ in range(STEPS // 4):
            await keep(site, 1)
            await keep(site, 1, sliced)
            await site.step(STEP_S)

    assert site.most_refused(lambda one: GPU in one.requests) == MOST
    assert site.most_refused(lambda one: MIG_2G in one.requests) == MOST


async def test_oversized_deployment_closes_the_node_for_no_other_pod() -> None:
    """The plugin refuses two shared GPUs for one container; others ask for one and get it."""

    def kubelet(one: Pod, _node: str) -> Verdict:
        return SIZE if one.requests[GPU] > 1 else None

    async with Site([node("n1", gpus=8)], kubelet) as site:
        for step in range(STEPS):
            await keep(site, 2, pair)
            if step % 4 == 0:
                newcomer = await site.create(mine)
                await site.step(STEP_S)
                assert newcomer.uid in site.running
                await site.end(newcomer.uid)
            else:
                await site.step(STEP_S)
        told = [text for _, what, text in site.stage.recorder.said if what == "NodeAvoided"]
        refused = [text for _, what, text in site.stage.recorder.said if what == "Unschedulable"]

    assert site.most_refused() == MOST
    assert told[0] == (
        f"the device plugin of node n1 refuses more than 1 {GPU} in one container: request 1 in"
        f" each container, or select another node: pods with more than 1 {GPU} in one container"
        " avoid it for 30 s"
    )
    assert refused[0] == (
        "0/1 nodes are available: 1 node(s) whose device plugin refuses more than 1"
        f" {GPU} in one container."
    )


@pytest.mark.parametrize("size", [1, 2])
async def test_workload_with_unclear_rejections_closes_the_node_for_none(size: int) -> None:
    """Others that ask for as much, or for less, are admitted meanwhile."""
    longest_wait = 0.0

    def odd(name: str) -> Pod:
        return pod(name, gpus=size, requests={"cpu": "7"}, owner="Deployment/odd")

    def kubelet(one: Pod, _node: str) -> Verdict:
        what = f"Allocate failed due to something about {GPU}"
        return ("UnexpectedAdmissionError", what) if one.namespace == "team" else None

    async with Site([node("n1", gpus=8)], kubelet) as site:
        for step in range(STEPS // 2):
            if step % 12 == 0:
                await keep(site, 1, odd)
            newcomer = await site.create(mine)
            began = site.now
            while newcomer.uid not in site.running:
                await site.step(1.0)
            longest_wait = max(longest_wait, site.now - began)
            await site.end(newcomer.uid)
            await site.step(STEP_S)

    assert site.most_refused() <= MOST
    assert len(site.failed) < 10, "and in the long run the pauses grow"
    assert longest_wait <= 1.0
