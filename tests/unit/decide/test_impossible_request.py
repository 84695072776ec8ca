"""The message for a request that no node of the cluster can satisfy has numbers."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.rejection_message import parts
from scheduler.model.reasons.reason import IMPOSSIBLE, sentence
from tests.builders import ALLOW_ALL_MAPS, GPU, cluster, dynamic, node, pod, refused

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "1"}
T4 = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/mig.capable": "false"}
NEW = {"nvidia.com/gpu.product": "NVIDIA-Z900-96GB"}
EIGHT = node("big", gpus=8, taints=["a:NoSchedule"])
TWO = node("small", gpus=2)

WISH = {"gpu-scheduler.io/gpu-memory": "200Gi", "gpu-scheduler.io/gpu-memory-given": "app=gpu"}
#: As the webhook restricts such a pod.
_LARGE = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["192511"]}
_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [_LARGE]}]}
LARGE_CARD = {
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _TERMS}}
}
NEVERS = [
    pytest.param(
        [EIGHT, TWO],
        {"gpus": 9},
        "requests 9 nvidia.com/gpu and the largest node here has 8",
        "Unschedulable",
        id="more-gpus-than-the-largest-node",
    ),
    pytest.param(
        [node(cpu="8"), node("b", cpu="16")],
        {"requests": {"cpu": "64", "memory": "1Ti"}},
        "requests 64 cpu and the largest node here has 16 and requests 1Ti memory and the largest"
        " node here has 128Gi",
        "Unschedulable",
        id="cpu-and-memory",
    ),
    pytest.param(
        [node(mig={"2g.20gb": 3}, labels=A100), node("cpu-only", taints=["a:NoSchedule"])],
        {"mig": {"9g.99gb": 1}},
        "no GPU model here (A100-80) has the MIG profile 9g.99gb",
        "NoSuchProfile",
        id="no-model-here",
    ),
    pytest.param(
        [node(mig={"2g.20gb": 3}, labels=A100), node("t4", gpus=1, labels=T4)],
        {"mig": {"1g.6gb": 1}},
        "no GPU model here (A100-80) has the MIG profile 1g.6gb",
        "NoSuchProfile",
        id="of-another-model-and-one-that-cannot-be-cut",
    ),
    pytest.param(
        [node(gpus=8, labels={"nvidia.com/gpu.memory": "81559"})],
        {"gpus": 1, "annotations": WISH, "spec": LARGE_CARD},
        "requests 200Gi of GPU memory and the largest GPU here has 79.6Gi (81559 MiB)",
        "Unschedulable",
        id="gpu-memory",
    ),
    pytest.param(
        [node()],
        {"mig": {"9g.99gb": 1}},
        "no known GPU model has the MIG profile 9g.99gb",
        "NoSuchProfile",
        id="no-known-model",
    ),
]


@pytest.mark.parametrize(("objects", "fields", "impossible", "reason"), NEVERS)
def test_impossible_request_is_reported_with_numbers(
    objects: list[Any], fields: Any, impossible: str, reason: str
) -> None:
    diagnosis = refused(cluster(*objects), pod(**fields)).diagnosis

    head, _, tail = sentence(diagnosis).partition(f" {IMPOSSIBLE}")
    assert tail == f"{impossible}."
    assert head.startswith(f"0/{len(objects)} nodes are available: ")
    assert all(part.code is not None for part in parts(sentence(diagnosis)))
    assert diagnosis.condition_reason(is_mapped=False) == reason


PERHAPS = [
    pytest.param([EIGHT, TWO], {"gpus": 8}, id="the-largest-is-tainted"),
    pytest.param([node(gpus=2), pod("a", gpus=2, node="n1")], {"gpus": 2}, id="it-is-full"),
    pytest.param([node()], {"gpus": 1}, id="no-device-plugin-yet"),
    pytest.param(
        [node(gpus=7, labels={"nvidia.com/gpu.count": "8"})], {"gpus": 8}, id="one-gpu-failed"
    ),
    pytest.param([node(gpus=0, mig={"1g.10gb": 7}, labels=A100)], {"gpus": 1}, id="it-is-cut-now"),
    pytest.param(
        [node(mig={"1g.10gb": 7}, labels=A100)], {"mig": {"3g.40gb": 1}}, id="cut-otherwise"
    ),
    pytest.param([node()], {"mig": {"1g.6gb": 1}}, id="no-gpu-here-and-a-known-model"),
    pytest.param(
        [node(mig={"1g.10gb": 7}, labels=A100), node("new", gpus=1, labels=NEW)],
        {"mig": {"9g.99gb": 1}},
        id="a-model-that-is-not-known",
    ),
    pytest.param([dynamic(cordoned=True)], {"mig": {"1g.10gb": 1}}, id="dynamic-mig"),
]


@pytest.mark.parametrize(("objects", "fields"), PERHAPS)
def test_possible_request_is_not_reported_as_impossible(objects: list[Any], fields: Any) -> None:
    diagnosis = refused(cluster(*objects), pod("w", **fields)).diagnosis

    assert diagnosis.impossible is None
    assert diagnosis.condition_reason(is_mapped=False) == "Unschedulable"


def test_a_map_names_the_only_node_that_counts() -> None:
    world = cluster(node("n1", cpu="8"), node("n2", cpu="64"))
    found = refused(world, pod("w-0", map="0=n1:0", requests={"cpu": "16"}), ALLOW_ALL_MAPS)

    assert sentence(found.diagnosis).endswith(f"{IMPOSSIBLE}requests 16 cpu and node n1 has 8.")
    assert found.diagnosis.condition_reason(is_mapped=True) == "WaitingForMappedNode"


def test_deleted_node_no_longer_counts_as_largest() -> None:
    world = cluster(EIGHT, TWO)
    assert refused(world, pod(gpus=3)).diagnosis.impossible is None

    world.delete_node("big")

    assert "largest node here has 2" in sentence(refused(world, pod(gpus=3)).diagnosis)
    world.upsert_node(node("small", gpus=4))
    assert world.nodes.offers.most(GPU) == 4
    world.delete_node("small")
    assert world.nodes.offers.most(GPU) == 0


def test_equal_pods_share_one_sentence() -> None:
    world = cluster(TWO)
    first, second = (refused(world, pod(name, gpus=3)).diagnosis for name in "ab")

    assert first is second
