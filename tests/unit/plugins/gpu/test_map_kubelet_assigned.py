"""Device assignment by the kubelet, physical GPU counts, and maps on such nodes.

Labels and resources are those of NVIDIA's device plugin, feature discovery and DRA driver.
"""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.gpu.device import Devices, format_devices, parse_devices
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import REASON_CODES, default_pipeline
from tests.builders import (
    ALLOW_ALL_MAPS,
    GPU,
    PodFields,
    cluster,
    codes,
    node,
    placed,
    pod,
    refused,
    settle,
)
from tests.feature_discovery_labels import INVALID, MIXED, RENAMED, SINGLE, SLICED, WHOLE

SHARED = "nvidia.com/gpu.shared"
MIG = "nvidia.com/mig-1g.5gb"
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H200"}
SEED = {"gpu-node-name": "node1", "gpu-type": "a100", "gpu-count": "8", "gpu-memory": "40gb"}
NUMBERED = {well_known.NUMBERED: "numbered"}

SLICED_NODE = node(labels=SLICED, offers={GPU: "8"}, capacity={GPU: "8"})
RENAMED_NODE = node(labels=RENAMED, offers={SHARED: "8"}, capacity={SHARED: "8"})
MIXED_NODE = node(labels=MIXED, offers={MIG: "14"}, capacity={MIG: "14"})
SINGLE_NODE = node(labels=SINGLE, offers={GPU: "14"}, capacity={GPU: "14"})
INVALID_NODE = node(labels=INVALID)
DRA_NODE = node(labels=WHOLE)


@pytest.mark.parametrize(
    ("at", "is_index_assigned"),
    [
        pytest.param(node(), True, id="nothing-said"),
        pytest.param(node(labels=SEED), True, id="the-seeds-labels"),
        pytest.param(node(labels=PRODUCT), True, id="a-product-written-by-hand"),
        pytest.param(node(labels={"nvidia.com/gpu.count": "2"}), True, id="a-count-by-hand"),
        pytest.param(node(offers={"nvidia.com/hostdev": "8"}), True, id="only-network-cards"),
        pytest.param(SLICED_NODE, False, id="time-slicing"),
        pytest.param(RENAMED_NODE, False, id="time-slicing-with-another-name"),
        pytest.param(node(offers={SHARED: "8"}), False, id="another-name-without-labels"),
        pytest.param(node(offers={"nvidia.com/small": "8"}), False, id="any-other-name"),
        pytest.param(node(capacity={SHARED: "0"}), False, id="a-name-that-the-kubelet-keeps"),
        pytest.param(node(capacity={GPU: "8"}), False, id="in-capacity-alone"),
        pytest.param(MIXED_NODE, False, id="all-cards-cut"),
        pytest.param(node(labels=MIXED), False, id="all-cards-cut-and-the-plugin-away"),
        pytest.param(INVALID_NODE, False, id="cards-cut-differently-in-strategy-single"),
        pytest.param(
            node(labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID"}),
            False,
            id="by-the-product-alone",
        ),
        pytest.param(DRA_NODE, False, id="discovery-and-no-plugin"),
        pytest.param(
            node(labels={"nvidia.com/gpu.deploy.device-plugin": "true"}),
            False,
            id="the-operator-deploys-a-plugin-here",
        ),
        pytest.param(
            node(labels={"nvidia.com/gpu.deploy.device-plugin": "false"}),
            True,
            id="the-operator-deploys-none",
        ),
        pytest.param(
            node(labels={**WHOLE, **NUMBERED}, offers={GPU: "2"}), True, id="the-plugin-honours-us"
        ),
    ],
)
def test_gpus_have_indexes_unless_a_plugin_assigns_them(at: Node, is_index_assigned: bool) -> None:
    assert at.is_index_assigned is is_index_assigned


@pytest.mark.parametrize(
    ("at", "index", "said"),
    [
        pytest.param(SLICED_NODE, 7, "without GPU 7 (the node has 2)", id="time-sliced-by-4"),
        pytest.param(RENAMED_NODE, 9, "without GPU 9 (the node has 2)", id="renamed"),
        pytest.param(DRA_NODE, 9, "without GPU 9 (the node has 2)", id="dra-only"),
        pytest.param(MIXED_NODE, 9, "without GPU 9 (the node has 2)", id="all-cut-beyond"),
        pytest.param(MIXED_NODE, 0, "whose GPU 0 has MIG instances", id="all-cut"),
        pytest.param(SINGLE_NODE, 9, "whose GPU 9 has MIG instances", id="single"),
        pytest.param(INVALID_NODE, 0, "whose GPU 0 has MIG instances", id="invalid"),
        pytest.param(node(offers={MIG: "14"}), 0, "whose GPU 0 has MIG instances", id="no-labels"),
        pytest.param(
            node(gpus=0, labels=NUMBERED, offers={MIG: "14"}),
            300,
            "whose GPU 300 has MIG instances",
            id="numbered-and-all-cut",
        ),
        pytest.param(
            node(gpus=14, labels={**SINGLE, **NUMBERED}),
            14,
            "whose GPU 14 has MIG instances",
            id="numbered-instances",
        ),
        pytest.param(
            node(gpus=1, labels={**NUMBERED, "nvidia.com/gpu.count": "2"}, offers={MIG: "7"}),
            1,
            "whose GPU 1 has MIG instances",
            id="numbered-and-one-cut",
        ),
        pytest.param(
            node(gpus=8, labels={"nvidia.com/gpu.replicas": "4"}),
            2,
            "without GPU 2 (the node has 2)",
            id="no-count-but-replicas",
        ),
        pytest.param(
            node(labels=PRODUCT | {"nvidia.com/gpu.count": "2"}),
            2,
            "without GPU 2 (the node has 2)",
            id="a-count-by-hand",
        ),
    ],
)
def test_map_is_checked_against_physical_gpus_with_their_count(
    at: Node, index: int, said: str
) -> None:
    state, mapped = cluster(at), pod("w-0", map=f"0=n1:{index}")

    assert codes(state, mapped) == {REASON_CODES["DEVICE_NOT_FOUND"]}
    text = sentence(refused(state, mapped).diagnosis)
    assert text == f"0/1 nodes are available: 1 node(s) {said}."


EIGHT = {"nvidia.com/gpu.count": "8"}


@pytest.mark.parametrize(
    ("at", "index"),
    [
        pytest.param(SLICED_NODE, 1, id="time-sliced"),
        pytest.param(RENAMED_NODE, 1, id="renamed"),
        pytest.param(DRA_NODE, 1, id="dra-only-and-no-claim-runs"),
        pytest.param(node(gpus=6, labels=EIGHT, capacity={GPU: "8"}), 7, id="two-unhealthy"),
        pytest.param(node(gpus=6, capacity={GPU: "8"}), 7, id="two-unhealthy-without-labels"),
        pytest.param(node(gpus=0, labels=EIGHT, capacity={GPU: "8"}), 0, id="plugin-restarts"),
        pytest.param(node(gpus=0, capacity={GPU: "8"}), 7, id="plugin-restarts-without-labels"),
        pytest.param(node(gpus=0, offers={SHARED: "8"}), 7, id="renamed-later-without-labels"),
        pytest.param(node(labels=SEED), 99, id="the-seeds-node-accepts-any"),
    ],
)
def test_map_to_a_present_gpu_binds_whatever_is_allocatable(at: Node, index: int) -> None:
    placement = placed(cluster(at), pod("w-0", map=f"0=n1:{index}"))

    assert placement.devices.numbers == (index,)


def test_physical_count_beyond_its_bound_is_ignored() -> None:
    at = node(labels={"nvidia.com/gpu.count": "99999999999"}, capacity={GPU: "4"})

    assert at.physical_gpu_count == 4


def test_partitioned_gpus_are_known_through_the_annotation() -> None:
    text = (
        "mig-configs:\n  selected:\n  - devices: [0]\n    mig-enabled: true\n"
        "    mig-devices: {1g.5gb: 7}\n  - devices: [1]\n    mig-enabled: false\n"
    )
    labels = {**MIXED, "nvidia.com/gpu.replicas": "1"}
    at = node(gpus=1, mig={"1g.5gb": 7}, labels=labels, annotations={well_known.MIG_CONFIG: text})
    state = cluster(at)

    assert codes(state, pod("w-0", map="0=n1:0")) == {REASON_CODES["DEVICE_NOT_FOUND"]}
    assert placed(state, pod("w-0", map="0=n1:1")).devices.numbers == (1,)


EXPECTS = default_pipeline(Settings(maps_allow="all", expects_webhook=True))
SHARE: PodFields = {"map": "0=n1:1", "requests": {SHARED: 1}, "owner": "StatefulSet/s"}


def test_mapped_pod_with_a_share_request_binds_with_a_note() -> None:
    """The webhook sets no variable there, and none is missing."""
    found = schedule_one(cluster(RENAMED_NODE), pod("s-0", **SHARE), EXPECTS)

    assert isinstance(found, Placement)
    assert format_devices(found.devices) == "gpu.shared x 1"
    assert found.cuda_visible_devices is None
    assert [reason for reason, _ in found.notes] == ["MapHonouredNodeOnly"]


@pytest.mark.contract("S4-21")
def test_shares_are_accounted_by_count() -> None:
    state = cluster(RENAMED_NODE)
    for number in range(8):
        settle(state, pod(f"a{number}", requests={SHARED: 1}))

    assert codes(state, pod("ninth", requests={SHARED: 1})) == {REASON_CODES["INSUFFICIENT"]}
    assert codes(state, pod("w-0", map="0=n1:0")) == {REASON_CODES["KUBELET_ASSIGNS_DEVICES"]}


def test_map_without_request_excludes_pods_with_shares() -> None:
    state = cluster(RENAMED_NODE)
    settle(state, pod("w-0", map="0=n1:0"))

    assert codes(state, pod("a", requests={SHARED: 1})) == {REASON_CODES["KUBELET_ASSIGNS_DEVICES"]}


CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
EXTENDED: Any = {"resourceClaimName": "made", "requestMappings": []}
CLAIMING = [
    pytest.param(pod("c", scheduler="default-scheduler", node="n1", spec=CLAIM), id="claim"),
    pytest.param(
        pod(
            "c",
            scheduler="default-scheduler",
            node="n1",
            status={"extendedResourceClaimStatus": EXTENDED},
        ),
        id="claim-made-for-a-plain-request",
    ),
]


@pytest.mark.parametrize("holder", CLAIMING)
@pytest.mark.parametrize("at", [DRA_NODE, node()], ids=["discovery", "nothing-said"])
def test_map_waits_beside_pods_with_claims_on_unknown_gpus(at: Node, holder: Pod) -> None:
    state, mapped = cluster(at, holder), pod("w-0", map="0=n1:0")

    assert codes(state, mapped) == {REASON_CODES["DEVICE_ASSIGNMENT_UNKNOWN"]}
    assert sentence(refused(state, mapped).diagnosis) == (
        "0/1 nodes are available: 1 node(s) run pods with resource claims and the GPUs"
        " allocated by DRA are unknown."
    )
    state.delete_pod(holder.uid)
    assert placed(state, mapped).devices.numbers == (0,)


def test_index_assigned_nodes_ignore_claims() -> None:
    holder = pod("c", scheduler="default-scheduler", node="n1", spec=CLAIM)
    state = cluster(node(gpus=2, with_gpu_indexes=True), holder)

    assert placed(state, pod("w-0", map="0=n1:0")).devices.numbers == (0,)


@pytest.mark.parametrize(
    ("at", "fields", "said"),
    [
        pytest.param(node(gpus=8), {}, ["MapWithoutRequest"], id="a-vendors-plugin"),
        pytest.param(DRA_NODE, {}, ["MapWithoutRequest"], id="discovery-and-no-plugin"),
        pytest.param(node(gpus=8), {"gpus": 1}, ["MapHonouredNodeOnly"], id="with-a-request"),
        pytest.param(node(), {}, [], id="nothing-hands-out"),
        pytest.param(node(gpus=8, with_gpu_indexes=True), {}, [], id="the-plugin-honours-us"),
    ],
)
def test_map_without_request_is_noted_where_containers_see_gpus(
    at: Node, fields: Any, said: list[str]
) -> None:
    told = pod("w-0", map="0=n1:0", annotations={well_known.CUDA_MODE: "none"}, **fields)
    found = schedule_one(cluster(at), told, ALLOW_ALL_MAPS)

    assert isinstance(found, Placement)
    assert [reason for reason, _ in found.notes] == said
    for _, text in found.notes:
        assert "kubelet" in text or "see GPUs 0 only where the runtime shows all GPUs" in text


@pytest.mark.parametrize(
    ("at", "asked", "said"),
    [
        pytest.param(SINGLE_NODE, {GPU: 1}, "1g.5gb x 1", id="strategy-single"),
        pytest.param(RENAMED_NODE, {SHARED: 2}, "gpu.shared x 2", id="renamed"),
        pytest.param(
            node(offers={"nvidia.com/mig-1g.5gb.shared": "4"}),
            {"nvidia.com/mig-1g.5gb.shared": 1},
            "1g.5gb.shared x 1",
            id="renamed-slices",
        ),
        pytest.param(
            node(offers={"nvidia.com/GRID_T4-1Q": "4"}),
            {"nvidia.com/GRID_T4-1Q": 1},
            "GRID_T4-1Q x 1",
            id="any-other-name",
        ),
        pytest.param(node(gpus=2), {GPU: 1}, "gpu x 1", id="whole"),
    ],
)
@pytest.mark.parametrize("text", [None, "0=n1:0"], ids=["packed", "mapped"])
def test_devices_annotation_names_the_unit(
    at: Node, asked: dict[str, int], said: str, text: str | None
) -> None:
    fields: PodFields = {"requests": asked}
    if text is not None:
        fields["map"] = text.replace(":0", _line(asked))
    found = placed(cluster(at), pod("w-0", **fields)).devices

    assert format_devices(found) == said
    assert parse_devices(said) == found == Devices((), found.counts)


def _line(asked: dict[str, int]) -> str:
    return ":" + ",".join(str(number) for number in range(max(asked.values())))
