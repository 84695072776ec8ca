"""What a pending pod can expect: later or never, the closest node, its holders, what helps."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.remedy.outlook import HOLDERS_MAX, CanStart, Outlook
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.questions import explain_now, outlook
from tests.unit.plugins.preemption.scene import OWN

FULL = (node("n1", gpus=8), node("n2", gpus=4))


def running(name: str, gpus: int, on: str = "n1", **fields: Any) -> Pod:
    return pod(name, node=on, gpus=gpus, phase="Running", **fields)


def told(state: Cluster, waiting: Pod, pipeline: Pipeline = ALLOW_ALL_MAPS) -> Outlook:
    return outlook(state, waiting, pipeline, explain_now(state, waiting, pipeline))


@pytest.mark.parametrize(
    ("objects", "waiting", "can_start", "text"),
    [
        pytest.param(
            (*FULL, running("a", 6)),
            pod("p", gpus=5),
            CanStart.LATER,
            "when pods on 1 node end",
            id="when-pods-end",
        ),
        pytest.param(
            FULL,
            pod("p", gpus=16),
            CanStart.NEVER,
            "requests 16 nvidia.com/gpu and the largest node here has 8",
            id="larger-than-every-node",
        ),
        pytest.param(
            (node("n1", gpus=8, taints=["a:NoSchedule"]),),
            pod("p", gpus=1),
            CanStart.AFTER_CHANGE,
            "the pod has to change or a node has to be added or changed",
            id="tainted",
        ),
        pytest.param(
            (node("n1"),),
            pod("p", spec={"workloadRef": {"name": "x"}}),
            CanStart.AFTER_CHANGE,
            "the pod has to change",
            id="unsupported",
        ),
    ],
)
def test_when_a_pod_can_start(
    objects: tuple[Any, ...], waiting: Pod, can_start: CanStart, text: str
) -> None:
    found = told(cluster(*objects), waiting)

    assert (found.can_start, found.text) == (can_start, text)


def test_victims_that_end_already_let_the_pod_start_later() -> None:
    state = cluster(node("n1", gpus=2), running("low", 2, scheduler="gpu-scheduler"))

    found = told(state, pod("high", gpus=1, priority=10), OWN)

    assert (found.can_start, found.text) == (CanStart.LATER, "when pods on node n1 have ended")


def test_closest_node_lacks_the_smallest_part_and_names_its_holders() -> None:
    holders = (running("small", 1, created=5), running("big", 4, namespace="lab", created=7))
    state = cluster(*FULL, *holders, running("other", 3, on="n2"))

    closest = told(state, pod("p", gpus=4)).closest

    assert closest is not None
    assert (closest.node, closest.text) == ("n1", "3 of 4 nvidia.com/gpu free")
    assert [(one.namespace, one.pod, one.holds) for one in closest.holders] == [
        ("lab", "big", "4 nvidia.com/gpu"),
        ("team", "small", "1 nvidia.com/gpu"),
    ]
    assert closest.holders[0].since == "2026-11-27T10:00:07Z"


def test_holders_beyond_the_limit_are_counted() -> None:
    state = cluster(node("n1", gpus=16), *(running(f"a{at:02}", 1) for at in range(16)))

    closest = told(state, pod("p", gpus=2)).closest

    assert closest is not None
    assert len(closest.holders) == HOLDERS_MAX
    assert closest.others == 16 - HOLDERS_MAX


def test_mapped_pod_names_the_pod_that_holds_its_device() -> None:
    holder = pod("a-0", map="0=n1:0", node="n1", index=0, devices="gpu:0", owner="StatefulSet/a")
    state = cluster(node("n1", gpus=2, with_gpu_indexes=True), node("n2"), holder)

    closest = told(state, pod("b-0", map="0=n1:0")).closest

    assert closest is not None
    assert closest.node == "n1"
    assert [(one.pod, one.holds) for one in closest.holders] == [("a-0", "gpu:0")]


def test_pod_of_another_namespace_is_no_remedy() -> None:
    state = cluster(node("n1", gpus=2), running("theirs", 2, namespace="lab"))

    assert told(state, pod("p", gpus=2)).remedies == ()


def test_remedy_respects_capacity_that_is_nominated_to_a_stronger_pod() -> None:
    stronger = pod("boss", gpus=2, priority=9, nominated="n1")
    state = cluster(node("n1", gpus=4), running("mine", 2), running("b", 2), stronger)

    found = told(state, pod("p", gpus=2))

    assert [edit.field for one in found.remedies for edit in one.edits] == []


def test_remedies_have_no_effect_on_the_state() -> None:
    state = cluster(*FULL, running("a", 6), running("b", 3, on="n2"))
    before = _content(state)

    assert told(state, pod("p", gpus=5)).remedies
    assert _content(state) == before


def _content(state: Cluster) -> tuple[Any, ...]:
    return tuple(
        (one.node.name, sorted(one.pods), dict(one.used)) for one in state.candidates() if one.node
    )
