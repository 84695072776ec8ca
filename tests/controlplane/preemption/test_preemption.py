"""Preemption on the real API server: with the shipped roles, policies and PriorityClasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.preemption_scene import (
    GPU,
    disruption,
    guard,
    held,
    let_go,
    names,
    settled,
    status,
    wait_going,
    wait_nominated,
    wait_running,
)
from tests.controlplane.workloads import Json, Watcher, annotation, node_of, pod, why
from tools.controlplane import ControlPlane

Still = Callable[[str, int], None]
NUMBERED = {"gpu-scheduler.io/devices": "numbered"}


def wants(name: str, priority: str, gpus: int = 1, **more: Any) -> Json:
    """A pod of this PriorityClass."""
    return pod(name, limits={GPU: str(gpus)}, priorityClassName=priority, **more)


@pytest.mark.smoke
@pytest.mark.contract("S4-6")
def test_a_pod_of_high_priority_preempts_one_of_low_priority(
    here: Watcher, kwok_node: MakeNode
) -> None:
    """The lab's exercise: two pods for one GPU, and events that match ``preempt``."""
    kwok_node("pre-lab", gpus=1)
    here.create(wants("low-priority-gpu", "gpu-low", labels={"priority": "low"}))
    here.wait_bound(1)

    high = here.create(wants("high-priority-gpu", "gpu-high", labels={"priority": "high"}))

    here.wait("the high pod alone", lambda items: [node_of(i) for i in items] == ["pre-lab"])
    assert names(here) == {"high-priority-gpu"}
    here.wait_told("low-priority-gpu", "Preempted")
    [event] = [e for e in here.events("low-priority-gpu") if e["reason"] == "Preempted"]
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert event["note"] == f"Preempted by pod {high['metadata']['uid']} on node pre-lab"
    assert event["related"]["name"] == "high-priority-gpu"


def test_the_victim_is_marked_and_the_room_kept_for_the_preemptor(
    here: Watcher, still: Still
) -> None:
    still("pre-kept", 1)
    here.create(held(wants("victim", "gpu-normal")))
    here.wait_bound(1)
    here.create(held(wants("boss", "gpu-high")))
    wait_going(here, "victim")

    said = disruption(here, "victim")
    assert (said["status"], said["reason"]) == ("True", "PreemptionByScheduler")
    prefix = "gpu-scheduler: preempting to accommodate a higher priority pod (term "
    assert said["message"].startswith(prefix)
    wait_nominated(here, "boss", "pre-kept")

    here.create(held(wants("rival", "gpu-normal")))
    here.create(held(wants("equal", "gpu-high")))
    settled(here, "rival", "0/1 nodes are available")
    settled(here, "equal", "0/1 nodes are available")
    let_go(here, "victim")

    [bound] = [item for item in here.wait_bound(1) if node_of(item)]
    assert bound["metadata"]["name"] == "boss"
    assert names(here) == {"boss", "rival", "equal"}


@pytest.mark.kubernetes("1.35", "the API server keeps the nominated node of a bound pod before")
def test_a_bound_preemptor_has_no_nominated_node(here: Watcher, still: Still) -> None:
    still("pre-cleared", 1)
    here.create(held(wants("victim", "gpu-normal")))
    here.wait_bound(1)
    here.create(held(wants("boss", "gpu-high")))
    wait_nominated(here, "boss", "pre-cleared")
    let_go(here, "victim")

    [bound] = [item for item in here.wait_bound(1) if node_of(item)]
    assert bound["metadata"]["name"] == "boss"
    assert "nominatedNodeName" not in bound["status"]


def test_a_preemptor_takes_no_second_victim_while_one_ends(here: Watcher, still: Still) -> None:
    still("pre-one", 2)
    for name in ("a", "b"):
        here.create(held(wants(name, "gpu-normal")))
        here.wait_bound(1 + (name == "b"))
    here.create(held(wants("boss", "gpu-high")))
    here.wait(
        "one to go", lambda items: sum("deletionTimestamp" in i["metadata"] for i in items) == 1
    )
    [gone] = {"a", "b"} - names(here)
    wait_nominated(here, "boss", "pre-one")

    # The pod changes, so it is decided again; its victim has not ended.
    here.client.patch(here.path("Pod", "boss"), {"metadata": {"labels": {"changed": "yes"}}})
    settled(here, "boss", "not eligible due to a terminating pod on the nominated node.")

    assert {"a", "b"} - names(here) == {gone}
    let_go(here, gone)


@pytest.mark.contract("S4-7")
def test_a_class_that_never_preempts_waits(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("pre-never", gpus=1)
    here.create(pod("plain", limits={GPU: "1"}))
    here.wait_bound(1)

    here.create(wants("mild", "gpu-low"))

    settled(here, "mild", "not eligible due to preemptionPolicy=Never.")
    assert names(here) == {"plain", "mild"}


def test_equal_priority_is_no_victim(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("pre-equal", gpus=1)
    here.create(wants("first", "gpu-high"))
    here.wait_bound(1)

    here.create(wants("second", "gpu-high"))

    settled(
        here, "second", "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert names(here) == {"first", "second"}


def test_a_node_without_violated_budgets_is_preferred(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("pre-pdb-a", gpus=1)
    here.create(wants("guarded", "gpu-normal", labels={"app": "guarded"}))
    here.wait_bound(1)
    kwok_node("pre-pdb-b", gpus=1)
    here.create(wants("free", "gpu-normal"))
    here.wait_bound(2)
    wait_running(here, "guarded", "free")
    guard(here, "guarded", {"app": "guarded"})

    here.create(wants("boss", "gpu-high"))

    here.wait_bound_to({"pre-pdb-a", "pre-pdb-b"})
    here.wait_told("free", "Preempted")
    assert names(here) == {"guarded", "boss"}


def test_a_budget_is_violated_where_nothing_else_helps(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("pre-pdb", gpus=1)
    here.create(wants("guarded", "gpu-normal", labels={"app": "guarded"}))
    here.wait_bound(1)
    wait_running(here, "guarded")
    guard(here, "guarded", {"app": "guarded"})

    here.create(wants("boss", "gpu-high"))

    here.wait_told("guarded", "Preempted")
    here.wait("the preemptor", lambda items: [i["metadata"]["name"] for i in items] == ["boss"])
    here.wait_bound(1)


def test_pods_of_another_scheduler_are_no_victims(
    here: Watcher, kwok_node: MakeNode, cp: ControlPlane
) -> None:
    kwok_node("pre-foreign", gpus=1)
    here.create(pod("foreign", limits={GPU: "1"}, scheduler="another"))
    here.bind("foreign", "pre-foreign", {})
    wait_running(here, "foreign")

    here.create(wants("boss", "gpu-critical"))

    settled(
        here, "boss", "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert disruption(here, "foreign") == {}


def test_the_holder_of_a_mapped_device_goes(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("pre-map", gpus=2, labels=NUMBERED)
    for name in ("a", "b"):
        here.create(wants(name, "gpu-normal"))
        here.wait_bound(1 + (name == "b"))
    holders = {annotation(i, well_known.DEVICES): i["metadata"]["name"] for i in here.pods()}
    assert set(holders) == {"gpu:0", "gpu:1"}

    lines = {well_known.MAP: "0=pre-map:0"}
    here.create(wants("boss-0", "gpu-high", annotations=lines))

    here.wait_told(holders["gpu:0"], "Preempted")
    here.wait("the preemptor's node", lambda items: len(items) == 2 and all(map(node_of, items)))
    assert names(here) == {holders["gpu:1"], "boss-0"}
    boss = here.client.get(here.path("Pod", "boss-0"))
    assert annotation(boss, well_known.DEVICES) == "gpu:0"


def test_preemption_is_explained_by_gpuctl_why(here: Watcher, still: Still) -> None:
    still("pre-why", 1)
    here.create(held(wants("victim", "gpu-normal")))
    here.wait_bound(1)
    here.create(held(wants("boss", "gpu-high")))
    wait_going(here, "victim")
    wait_nominated(here, "boss", "pre-why")

    message = why(here.client.get(here.path("Pod", "boss")))
    assert "preempting 1 victims" in message or "terminating pod on the nominated" in message
    [condition] = [c for c in status(here, "boss")["conditions"] if c["type"] == "PodScheduled"]
    assert condition["reason"] == "WaitingForCapacity"
    let_go(here, "victim")
    here.wait_bound(1)


def test_a_nominated_node_that_is_deleted_is_given_up(
    here: Watcher, kwok_node: MakeNode, still: Still
) -> None:
    still("pre-gone", 1)
    here.create(held(wants("victim", "gpu-normal")))
    here.wait_bound(1)
    here.create(held(wants("boss", "gpu-high")))
    wait_going(here, "victim")
    wait_nominated(here, "boss", "pre-gone")

    here.client.delete("/api/v1/nodes/pre-gone")
    kwok_node("pre-next", gpus=1)

    [bound] = [
        i
        for i in here.wait(
            "boss to be bound", lambda items: any(node_of(i) == "pre-next" for i in items)
        )
        if node_of(i) == "pre-next"
    ]
    assert bound["metadata"]["name"] == "boss"
    let_go(here, "victim")
