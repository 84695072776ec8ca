"""``gpuctl whatif``: pods that end for others are created again by their controllers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpuctl.simulate.manifests import Document
from gpuctl.whatif.change import parse_change
from gpuctl.whatif.live_state import LiveState
from gpuctl.whatif.manifest import read_manifest
from gpuctl.whatif.question import answer, plan_of
from gpuctl.whatif.result import WhatIf
from scheduler.model.pods.pod import Pod
from tests.builders import node, pod_json
from tests.unit.gpuctl.cli import GPU, spec, workload
from tests.unit.gpuctl.whatif.live_world import H100, Json, asked, budget, live, places, running

URGENT: Json = {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 100}


def urgent(gpus: int) -> tuple[Json, Json]:
    """A Job of a high priority with one pod, and its class."""
    pods = {**spec(GPU, gpus), "priorityClassName": "urgent"}
    version = {"apiVersion": "scheduling.k8s.io/v1"}
    return {**version, **URGENT}, workload("Job", "urgent", pods, parallelism=1, completions=1)


def h100(name: str, gpus: int = 8) -> Any:
    return node(name, gpus=gpus, labels={**H100, "nvidia.com/gpu.count": str(gpus)})


@pytest.mark.parametrize(
    ("other", "waits"),
    [pytest.param((h100("n2", 4),), 0, id="room"), pytest.param((), 1, id="no-room")],
)
def test_preempted_pod_starts_elsewhere_or_waits(other: tuple[Any, ...], waits: int) -> None:
    state = live(h100("n1"), *other, pods=[running("web-1", "n1", gpus=4)])

    found = asked(state, *urgent(8)).now

    assert (found.starts, found.asked, found.preempted) == (1, 1, ("team/web-1",))
    assert found.others_wait == waits


def test_preempted_pod_without_a_controller_is_gone() -> None:
    state = live(h100("n1"), pods=[running("bare", "n1", gpus=4, owner="")])

    found = asked(state, *urgent(8)).now

    assert (found.preempted, found.others_wait) == (("team/bare",), 0)


def test_weaker_pod_gets_no_room_that_the_next_pod_takes() -> None:
    """The first urgent pod needs half of web-1's room, and the second the rest."""
    pods = [running("web-1", "n1", gpus=8), pod_json("small", gpus=2)]
    classes, job = urgent(4)
    job["spec"] |= {"parallelism": 2, "completions": 2}

    found = asked(live(h100("n1"), pods=pods), classes, job).now

    assert (found.starts, found.preempted, found.others_wait) == (2, ("team/web-1",), 2)


def test_weaker_pod_starts_only_in_what_the_manifest_leaves() -> None:
    """The last pods of the Job are created before the first victim has ended."""
    state = live(
        h100("n1"),
        pods=[
            *(running(f"web-{at}", "n1", gpus=4, labels={"app": "web"}) for at in range(2)),
            pod_json("small", gpus=1, owner=""),
        ],
        budgets=[budget("web", 0, app="web")],
    )
    classes, job = urgent(1)
    job["spec"] |= {"parallelism": 6, "completions": 6}

    found = asked(state, classes, job).now

    assert (found.starts, len(found.preempted), found.others_wait) == (6, 2, 2)
    assert {one.devices["gpu"].free for one in found.models} == {1}


def test_bare_pod_that_starts_and_is_preempted_is_gone() -> None:
    """The added node is for the bare pod, until the manifest's pod takes it away."""
    pods = [
        running("web-1", "n1", gpus=8, priority=100),
        pod_json("bare", gpus=8, owner=""),
    ]

    found = asked(live(h100("n1"), pods=pods), *urgent(8), add=["like=n1:1"])

    assert found.change is not None
    assert (found.change.starts, found.change.others_wait) == (1, 0)


def test_moved_pod_that_is_preempted_waits_once() -> None:
    """It left n2 for n1, from which the manifest's pod takes it away."""
    state = live(h100("n1"), h100("n2"), pods=[running("web-1", "n2", gpus=4)])

    found = asked(state, *urgent(8), drain=["n2"])

    assert found.change is not None
    assert (found.change.starts, found.change.others_wait) == (1, 0)
    assert places(found) == {"web-1": "waits"}


def test_unknown_controller_is_asked_for_and_noted() -> None:
    state = live(h100("n1"), pods=[running("web-1", "n1", gpus=4)])
    unread: list[str] = []

    found = decided(msgspec.structs.replace(state, recreated={}), unread)

    assert unread == ["web-1"]
    assert found.now.others_wait == 0
    assert found.notes == (
        "1 preempted pod not decided again: you may not read them or their owners, such as"
        " team/web-1",
    )


def decided(state: LiveState, unread: list[str]) -> WhatIf:
    """The answer for an urgent pod; ``unread`` gets the names of preempted pods."""
    documents = [Document(place=f"f:{at}", raw=raw) for at, raw in enumerate(urgent(8))]
    change = parse_change((), (), ())

    def note(pods: Any) -> None:
        found: list[Pod] = list(pods)
        unread.extend(pod.name for pod in found)

    manifest = read_manifest(documents, state, None)
    return answer(state, manifest, plan_of(state, change), lambda _: None, note)
