"""The holders of a node's devices; a device is never free because it could not be read."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.node_info import NodeInfo, over_committed
from scheduler.state.pod_allocation import allocation_of
from tests.builders import GPU, MIG_1G, MIG_2G, PodFields, container, node, pod

OTHER = "default-scheduler"
MAP = "0=n1:0,1"


def node_info(at: Node, *pods: Pod) -> NodeInfo:
    """The NodeInfo of a node on which these pods run, as read from the API."""
    entered = NodeInfo(at)
    for one in pods:
        entered.add(one, allocation_of(one, None, well_known.SCHEDULER_NAME, may_map=True))
    return entered


#: (pod, numbers, unknown): what is believed of a placed pod.
HOLDINGS = [
    pytest.param({"gpus": 2, "devices": "gpu:0,1"}, (0, 1), 0, id="our-binding-said-which"),
    pytest.param({"gpus": 2, "devices": "gpu x 2"}, (), 2, id="counted-by-the-kubelet"),
    pytest.param({"gpus": 2}, (), 2, id="no-annotation-is-unknown"),
    pytest.param({"gpus": 1, "devices": "gibberish"}, (), 1, id="unreadable-is-unknown"),
    pytest.param({"gpus": 1, "devices": "2g.20gb@0/0"}, (), 1, id="a-later-versions-text"),
    pytest.param(
        {"gpus": 1, "devices": "gpu:0", "scheduler": OTHER},
        (),
        1,
        id="foreign-text-is-not-believed",
    ),
    pytest.param(
        {"gpus": 1, "devices": "gpu:0,1,2"}, (), 1, id="more-numbers-than-requested-are-no-answer"
    ),
    pytest.param({"gpus": 3, "devices": "gpu:0"}, (), 3, id="fewer-numbers-are-no-answer-either"),
    pytest.param({"map": MAP, "devices": "gpu:0,1"}, (0, 1), 0, id="mapped-without-request"),
    pytest.param({"map": MAP}, (), 1, id="mapped-without-a-readable-number-takes-one"),
    pytest.param(
        {"map": MAP, "scheduler": OTHER, "devices": "gpu:0"}, (), 0, id="foreign-map-means-nothing"
    ),
    pytest.param(
        {"map": MAP, "gpus": 2, "devices": "gpu:0,1"}, (0, 1), 0, id="mapped-with-request"
    ),
    pytest.param({"mig": {"2g.20gb": 1}, "devices": "2g.20gb x 1"}, (), 0, id="mig-is-counted"),
    pytest.param({"devices": "gibberish"}, (), 1, id="unreadable-without-request-takes-one"),
    pytest.param({"devices": "gpu:0", "scheduler": OTHER}, (), 0, id="foreign-without-request"),
    pytest.param({}, (), 0, id="no-devices-at-all"),
]


@pytest.mark.contract("S2-B17")
@pytest.mark.parametrize(("fields", "numbers", "unknown"), HOLDINGS)
def test_devices_held_by_a_placed_pod(
    fields: PodFields, numbers: tuple[int, ...], unknown: int
) -> None:
    allocation = allocation_of(pod(**fields), None, well_known.SCHEDULER_NAME, may_map=True)

    assert (allocation.numbers, allocation.unknown) == (numbers, unknown)


def test_assumed_devices_count_before_confirmation() -> None:
    allocation = allocation_of(
        pod(gpus=1), Devices(numbers=(3,)), well_known.SCHEDULER_NAME, may_map=True
    )

    assert (allocation.numbers, allocation.unknown) == ((3,), 0)


def test_every_schedulers_pods_use_resources() -> None:
    """Semantics case 4: a foreign pod bound by hand counts."""
    state = node_info(node(gpus=4), pod("a", gpus=1, scheduler=OTHER), pod("b", gpus=2))

    assert state.free(GPU) == 1


def test_free_goes_below_zero_when_a_node_shrinks_and_nothing_crashes() -> None:
    """Semantics case 26: the device plugin is gone while pods run."""
    state = node_info(node(gpus=0), pod("a", gpus=2))

    assert state.free(GPU) == -2
    assert state.free_indexes() == ()


def test_a_node_that_is_only_named_by_its_pods_has_nothing_free() -> None:
    ghost = NodeInfo(None)
    ghost.add(
        pod("a", gpus=1),
        allocation_of(pod("a", gpus=1), None, well_known.SCHEDULER_NAME, may_map=True),
    )

    assert ghost.free(GPU) == 0
    assert ghost.free_indexes() == ()


FREE = [
    pytest.param([], 4, (0, 1, 2, 3), id="empty"),
    pytest.param([pod("a", gpus=1, devices="gpu:1")], 3, (0, 2, 3), id="one-requested"),
    pytest.param([pod("a", map=MAP, devices="gpu:0,1")], 2, (2, 3), id="mapped-past-the-plugin"),
    pytest.param(
        [
            pod("w-3", owner="StatefulSet/w", map=MAP, devices="gpu:3"),
            pod("w-4", owner="StatefulSet/w", map=MAP, devices="gpu:3"),
        ],
        3,
        (0, 1, 2),
        id="two-sharers-of-one-device-take-one",
    ),
    pytest.param(
        [
            pod("a", gpus=1, map=MAP, owner="StatefulSet/w", devices="gpu:0"),
            pod("b", map=MAP, owner="StatefulSet/w", devices="gpu:0"),
        ],
        3,
        (1, 2, 3),
        id="a-device-requested-and-mapped-is-taken-once",
    ),
    pytest.param([pod("a", map=MAP)], 3, (0, 1, 2, 3), id="unknown-number-takes-a-unit"),
    pytest.param(
        [pod("a", map=MAP, devices="gpu:9")], 3, (0, 1, 2, 3), id="a-number-beyond-the-node"
    ),
]


@pytest.mark.parametrize(("pods", "count", "numbers"), FREE)
def test_free_devices_of_an_index_assigned_node(
    pods: list[Pod], count: int, numbers: tuple[int, ...]
) -> None:
    state = node_info(node(gpus=4, with_gpu_indexes=True), *pods)

    assert state.free(GPU) == count
    assert state.free_indexes() == numbers


def test_mapped_pods_leave_the_plugin_count_of_counted_nodes() -> None:
    """There they are kept apart altogether, by the filter of devices."""
    assert node_info(node(gpus=4), pod("a", map=MAP, devices="gpu:0,1")).free(GPU) == 4


def test_device_sums_separate_plugin_and_bypassing_pods() -> None:
    past = node_info(node(gpus=4), pod("a", map=MAP, devices="gpu:0"))
    through = node_info(node(gpus=4), pod("a", mig={"2g.20gb": 1}, scheduler=OTHER))

    assert (past.mapped_past_plugin, past.usage.holds_plugin_devices) == (1, False)
    assert (through.mapped_past_plugin, through.usage.holds_plugin_devices) == (0, True)


def test_removed_map_annotation_frees_no_device() -> None:
    """The user may edit the key at any time; the container keeps its GPUs."""
    stripped = pod("a", devices="gpu:0")

    assert node_info(node(gpus=4), stripped).mapped_past_plugin


def test_add_pod_replaces_and_remove_pod_leaves_nothing() -> None:
    port = [{"containerPort": 1, "hostPort": 8080}]
    state = node_info(
        node(gpus=4, with_gpu_indexes=True), pod("a", gpus=1, devices="gpu:1", ports=port)
    )
    changed = pod("a", gpus=1, devices="gpu:2", ports=port)
    state.add(changed, allocation_of(changed, None, well_known.SCHEDULER_NAME, may_map=True))

    assert (state.used, state.free_indexes()) == ({GPU: 1}, (0, 1, 3))
    assert state.remove("team-a") == changed
    assert state.remove("team-a") is None
    assert (state.used, state.free_indexes(), state.ports) == ({GPU: 0}, (0, 1, 2, 3), {})


def test_copy_is_independent() -> None:
    state = node_info(node(gpus=4, with_gpu_indexes=True), pod("a", gpus=1, devices="gpu:1"))
    twin = state.copy()
    twin.remove("team-a")
    twin.add(
        pod("b", gpus=2),
        allocation_of(pod("b", gpus=2), None, well_known.SCHEDULER_NAME, may_map=True),
    )

    assert (state.free(GPU), state.free_indexes()) == (3, (0, 2, 3))
    assert (twin.free(GPU), twin.usage.unknown) == (2, 2)


SOUND = [
    pytest.param(node(gpus=2), [pod("a", gpus=2)], {}, id="full-is-sound"),
    pytest.param(node(gpus=2), [pod("a", gpus=3)], {GPU: 1}, id="more-than-there-is"),
    pytest.param(
        node(mig={"2g.20gb": 1}),
        [pod("a", mig={"2g.20gb": 1}), pod("b", mig={"2g.20gb": 1}, scheduler=OTHER)],
        {MIG_2G: 1},
        id="a-slice-twice",
    ),
    pytest.param(
        node(gpus=2), [pod("a", requests={"cpu": "99"})], {}, id="only-devices-are-watched"
    ),
    pytest.param(
        node(), [pod("a", map=MAP, gpus=0, devices="gpu:0,1")], {}, id="nothing-offered-no-count"
    ),
    pytest.param(
        node(gpus=1, with_gpu_indexes=True),
        [pod("a", map=MAP, devices="gpu:0,1")],
        {GPU: 1},
        id="more-mapped-than-offered",
    ),
    pytest.param(
        node(gpus=4, with_gpu_indexes=True),
        [pod("a", gpus=1, devices="gpu:0"), pod("b", gpus=1, devices="gpu:0")],
        {"gpu:0": 1},
        id="one-number-twice",
    ),
    pytest.param(
        node(),
        [
            pod("w-3", owner="StatefulSet/w", map=MAP, devices="gpu:3"),
            pod("w-4", owner="StatefulSet/w", map=MAP, devices="gpu:3"),
        ],
        {},
        id="siblings-share",
    ),
    pytest.param(
        node(),
        [
            pod("w-3", owner="StatefulSet/w", map=MAP, devices="gpu:3"),
            pod("v-3", owner="StatefulSet/v", map=MAP, devices="gpu:3"),
        ],
        {"gpu:3": 1},
        id="strangers-do-not",
    ),
    pytest.param(
        node(gpus=4, with_gpu_indexes=True),
        [
            pod("w-3", namespace="one", map=MAP, devices="gpu:3"),
            pod("w-3", namespace="two", map=MAP, devices="gpu:3"),
        ],
        {"gpu:3": 1},
        id="the-same-text-in-two-namespaces",
    ),
]


@pytest.mark.parametrize(("at", "pods", "excess"), SOUND)
def test_overcommitment_is_reported_with_the_excess(
    at: Node, pods: list[Pod], excess: dict[str, int]
) -> None:
    assert over_committed(node_info(at, *pods)) == excess


@pytest.mark.parametrize(
    ("at", "with_gpu_indexes"),
    [
        pytest.param(node(), True, id="advertises-nothing"),
        pytest.param(node(gpus=4), False, id="a-vendors-plugin"),
        pytest.param(node(gpus=0), False, id="a-plugin-that-offers-none-just-now"),
        pytest.param(node(mig={"1g.10gb": 7}), False, id="mig-only"),
        pytest.param(node(gpus=4, with_gpu_indexes=True), True, id="a-plugin-that-honours-us"),
        pytest.param(node(offers={"amd.com/gpu": "4"}), True, id="another-vendors-cards"),
        pytest.param(node(offers={"nvidia.com/gpu.shared": "4"}), False, id="time-slicing-renames"),
        pytest.param(node(offers={"nvidia.com/hostdev": "8"}), True, id="network-cards"),
        pytest.param(node(offers={"nvidia.com/gpumem": "8192"}), True, id="an-amount"),
    ],
)
def test_index_assigned_nodes(at: Node, with_gpu_indexes: bool) -> None:
    assert at.is_index_assigned is with_gpu_indexes


def test_similar_resource_names_are_distinct() -> None:
    """Field case C31: exact names, never suffixes."""
    offers = {"nvidia.com/vgpu": "80", "nvidia.com/mig-1g.10gb.me": "1", "amd.com/gpu": "2"}
    state = node_info(
        node(gpus=8, mig={"1g.10gb": 7}, offers=offers),
        pod("a", requests={"nvidia.com/vgpu": 3, "amd.com/gpu": 1}),
        pod("b", containers=[container(requests={"nvidia.com/mig-1g.10gb.me": 1})]),
    )

    assert {resource: state.free(resource) for resource in (GPU, MIG_1G, *offers)} == {
        GPU: 8,
        MIG_1G: 7,
        "nvidia.com/vgpu": 77,
        "nvidia.com/mig-1g.10gb.me": 0,
        "amd.com/gpu": 1,
    }
