"""The doctor finds a label that is wrong for the node's device plugin."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpuctl.doctor.checks import examine
from gpuctl.doctor.facts import Misnumbered, Unread
from gpuctl.doctor.finding import Finding
from gpuctl.doctor.numbers import Event, Items, misnumbered
from tests.builders import pod_json
from tests.unit.gpuctl.doctor.wellcluster import facts

GPU = "nvidia.com/gpu"
NODE = {
    "metadata": {
        "name": "n1",
        "uid": "u1",
        "labels": {"gpu-scheduler.io/devices": "numbered"},
        "annotations": {"gpu-scheduler.io/gpu-ids": "A,B"},
    },
    "status": {"allocatable": {GPU: "2"}},
}


def has(number: str, gpu: str) -> dict[str, Any]:
    told = [{"name": GPU, "resources": [{"resourceID": gpu, "health": "Healthy"}]}]
    status = {"containerStatuses": [{"name": "app", "allocatedResourcesStatus": told}]}
    return pod_json("p", gpus=1, node="n1", devices=f"gpu:{number}", status=status)


def found(*pods: dict[str, Any], events: Any = ()) -> tuple[Misnumbered, ...]:
    nodes = msgspec.json.decode(msgspec.json.encode({"items": [NODE]}), type=Items)
    listed = msgspec.json.decode(msgspec.json.encode({"items": pods}), type=Items)
    told = msgspec.json.decode(msgspec.json.encode(list(events)), type=list[Event])
    return misnumbered(nodes, listed, told, "gpu-scheduler")


def event(node: str, kind: str = "Node") -> dict[str, Any]:
    return {"involvedObject": {"kind": kind, "name": node}, "message": "told"}


def test_live_pods_tell_and_so_does_what_the_scheduler_said() -> None:
    assert found(has("1", "B")) == ()
    [wrong] = found(has("0", "B"))
    assert wrong.node == "n1"
    assert "was assigned gpu:0 and has B: gpu:1 by annotation gpu-scheduler.io/gpu-ids" in wrong.why
    assert found(has("1", "B"), events=[event("n1")]) == (Misnumbered("n1", "told"),)


def test_events_of_a_node_without_the_label_or_of_a_pod_are_dropped() -> None:
    assert found(events=[event("n2"), event("n1", kind="Pod")]) == ()


def numbers(known: Any) -> Finding:
    [one] = [each for each in examine(facts(misnumbered=known)) if each.about == "numbers"]
    return one


@pytest.mark.parametrize(
    ("known", "level", "words", "advice"),
    [
        pytest.param((), "OK", "no pod contradicts", "", id="none"),
        pytest.param(
            (Misnumbered("n1", "because"),),
            "FAIL",
            "is wrong on n1: because",
            "kubectl label node n1 gpu-scheduler.io/devices-",
            id="one",
        ),
        pytest.param(Unread("forbidden"), "WARN", "forbidden", "may read it", id="not-known"),
    ],
)
def test_the_finding_says_what_to_do(known: Any, level: str, words: str, advice: str) -> None:
    one = numbers(known)
    assert one.level.value == level
    assert words in one.says
    assert advice in one.advice
