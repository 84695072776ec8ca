"""What kubelets' words come to on a node: contradictions that cannot be otherwise, failed GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.plugins import REASON_CODES
from scheduler.state.event import ClusterEvent
from scheduler.state.reported_devices import KNOWN_MAX, Numbering, failed_gpus, held_twice
from tests.builders import cluster, codes, container, node, placed, pod

GPU = "nvidia.com/gpu"
IDS = "gpu-scheduler.io/gpu-ids"


def has(name: str, numbers: str, *ids: str, health: str = "Healthy", **more: Any) -> Pod:
    """A pod of ours on n1 that was assigned these numbers, and has these ids."""
    count = len(numbers.split(","))
    told = [{"resourceID": one, "health": health} for one in ids]
    status = {
        "containerStatuses": [
            {"name": "app", "allocatedResourcesStatus": [{"name": GPU, "resources": told}]}
        ]
    }
    fields = {"gpus": count, "devices": f"gpu:{numbers}", "node": "n1", **more}
    return pod(name, status=status, **fields)


SOUND = [
    pytest.param([has("a", "0", "A")], {}, id="one-pod-tells-nothing"),
    pytest.param([has("a", "0", "A"), has("b", "1", "B")], {}, id="two-numbers-two-ids"),
    pytest.param([has("a", "0", "B"), has("b", "1", "A")], {}, id="in-any-order"),
    pytest.param([has("a", "0", "A"), has("b", "0", "A")], {}, id="the-same-again"),
    pytest.param([has("a", "0,1", "A", "B"), has("b", "1", "B")], {}, id="one-of-two"),
    pytest.param([has("a", "1", "B")], {IDS: "A,B"}, id="as-the-table-says"),
    pytest.param([has("a", "1", "C")], {IDS: "A,B"}, id="an-id-that-the-table-lacks"),
    pytest.param([has("a", "1", "A")], {IDS: "A,A"}, id="a-flawed-table-says-nothing"),
    pytest.param([has("a", "0", "A::0"), has("b", "1", "A::0")], {}, id="shares"),
    pytest.param([has("a", "0,1", "A"), has("b", "0", "B")], {}, id="not-every-id-is-known"),
    pytest.param([has("a", "0", "A"), pod("b", gpus=1, node="n1", devices="gpu:0")], {}, id="none"),
    pytest.param(
        [has("a", "0", "A"), has("b", "1", "A", scheduler="other")],
        {},
        id="ids-of-another-scheduler",
    ),
]
WRONG = [
    pytest.param([has("a", "0", "A"), has("b", "1", "A")], {}, id="two-numbers-one-id"),
    pytest.param([has("a", "0", "A"), has("b", "0", "B")], {}, id="one-number-two-ids"),
    pytest.param([has("a", "0,1", "A", "B"), has("b", "2,3", "C", "A")], {}, id="an-id-in-common"),
    pytest.param([has("a", "0,1", "A", "B"), has("b", "1", "C")], {}, id="a-number-in-common"),
    pytest.param([has("a", "1", "A")], {IDS: "A,B"}, id="not-as-the-table-says"),
]


def seen(pods: list[Pod], annotations: dict[str, str]) -> str:
    """What these pods come to, each gone before the next one is there."""
    numbering, told = Numbering(), ""
    for one in pods:
        node_info = cluster(node(gpus=4, with_gpu_indexes=True, annotations=annotations), one).at(
            "n1"
        )
        assert node_info is not None
        told = told or numbering.see(node_info)
    return told


@pytest.mark.parametrize(("pods", "annotations"), SOUND)
def test_possible_device_ids_are_not_reported(pods: list[Pod], annotations: dict[str, str]) -> None:
    assert seen(pods, annotations) == ""


@pytest.mark.parametrize(("pods", "annotations"), WRONG)
def test_contradictory_device_ids_are_reported_with_their_pods(
    pods: list[Pod], annotations: dict[str, str]
) -> None:
    told = seen(pods, annotations)
    for one in pods:
        ids = ", ".join(sorted(device.id for device in one.allocated))
        numbers = one.annotations["gpu-scheduler.io/devices"]
        assert f"pod team/{one.name} was assigned {numbers} and has {ids}" in told


def test_siblings_sharing_a_device_by_map_are_no_contradiction() -> None:
    """Each of their requests gets a device of its own from the plugin."""
    web: dict[str, Any] = {"owner": "Deployment/web@r1", "map": "0=n1:0\n1=n1:0"}
    both = [has("web-a", "0", "A", **web), has("web-b", "0", "B", **web)]
    node_info = cluster(node(gpus=4, with_gpu_indexes=True), *both).at("n1")
    assert node_info is not None
    assert Numbering().see(node_info) == ""


def test_past_pods_are_limited() -> None:
    others = [has(f"p{number}", "1", "B") for number in range(KNOWN_MAX)]
    assert seen([has("first", "0", "A"), *others[1:], has("last", "0", "C")], {})
    assert seen([has("first", "0", "A"), *others, has("last", "0", "C")], {}) == ""


TWICE = [
    pytest.param([has("a", "0", "A"), has("b", "1", "A")], {"A": ("team/a", "team/b")}, id="one"),
    pytest.param([has("a", "0", "A"), has("b", "1", "B")], {}, id="two-ids"),
    pytest.param([has("a", "0", "A::0"), has("b", "1", "A::0")], {}, id="shares"),
    pytest.param([has("a", "0", "A"), has("b", "1", "A", deleting=True)], {}, id="one-goes"),
    pytest.param([has("a", "0", "A"), has("b", "1", "A", phase="Succeeded")], {}, id="one-ended"),
    pytest.param(
        [has("a", "0", "A", scheduler="x"), has("b", "1", "A", scheduler="y")],
        {"A": ("team/a", "team/b")},
        id="pods-of-other-schedulers",
    ),
]


@pytest.mark.parametrize(("pods", "found"), TWICE)
def test_one_gpu_in_two_live_pods_is_found(
    pods: list[Pod], found: dict[str, tuple[str, str]]
) -> None:
    assert held_twice(pods) == found


def test_two_containers_of_one_pod_are_one_holder() -> None:
    told = [{"name": GPU, "resources": [{"resourceID": "A", "health": "Healthy"}]}]
    each = [{"name": name, "allocatedResourcesStatus": told} for name in ("a", "b")]
    both = [container("a", gpus=1), container("b", gpus=1)]
    assert held_twice([pod(containers=both, status={"containerStatuses": each}, node="n1")]) == {}


def test_a_map_onto_a_gpu_that_is_known_as_failed_is_refused() -> None:
    """A sibling may share its number, and does not get it either."""
    web: dict[str, Any] = {"owner": "Deployment/web@r1", "map": "0=n1:1\n1=n1:1"}
    table = node(gpus=4, with_gpu_indexes=True, annotations={IDS: "A,B,C,D"})
    ill = has("web-a", "1", "B", health="Unhealthy", index=0, **web)
    sibling = pod("web-b", gpus=1, **web)
    state = cluster(table, ill)
    node_info = state.at("n1")
    assert node_info is not None

    assert failed_gpus(node_info) == {1}
    assert codes(state, sibling) == {
        REASON_CODES["NO_FREE_MAP_LINE"],
        REASON_CODES["DEVICE_FAILED"],
    }
    # It recovers, and the pods that wait for it are retried.
    well = has("web-a", "1", "B", index=0, **web)
    assert state.upsert_pod(well) == [ClusterEvent(RequeueCause.DEVICES, node_name="n1")]
    placed(state, sibling)
    assert state.upsert_pod(ill) == []


@pytest.mark.parametrize(
    "annotations",
    [{}, {IDS: "A,C,D"}, {IDS: "A,B,B,D"}],
    ids=["no-table", "an-id-that-the-table-lacks", "a-flawed-table"],
)
def test_unknown_index_is_not_reported(annotations: dict[str, str]) -> None:
    web: dict[str, Any] = {"owner": "Deployment/web@r1", "map": "0=n1:1\n1=n1:1"}
    ill = has("web-a", "1", "B", health="Unhealthy", index=0, **web)
    state = cluster(node(gpus=4, with_gpu_indexes=True, annotations=annotations), ill)
    placed(state, pod("web-b", gpus=1, **web))


def test_a_share_of_a_failed_gpu_tells_which_gpu_failed() -> None:
    state = cluster(
        node(gpus=4, annotations={IDS: "A,B"}), has("a", "0", "B::2", health="Unhealthy")
    )
    node_info = state.at("n1")
    assert node_info is not None
    assert failed_gpus(node_info) == {1}


def test_counts_stay_allocatable_minus_requests() -> None:
    """The device plugin takes an unhealthy GPU off its count by itself."""
    state = cluster(node(gpus=2, annotations={IDS: "A,B"}), has("a", "0", "B", health="Unhealthy"))
    placed(state, pod("b", gpus=1))
