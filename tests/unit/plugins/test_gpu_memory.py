"""GPU memory: the part of a share, and the reason of a node without enough."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.pipeline import first_rejection
from scheduler.model import quantity, well_known
from scheduler.model.gpu.gpu_memory import least_mib
from scheduler.model.pods.pod import Pod
from scheduler.plugins import gpu_memory, node_affinity
from scheduler.state.node_info import NodeInfo
from tests.builders import ALLOW_ALL_MAPS, container, node, pod

MEMORY, GPU, MIG = "nvidia.com/gpu.memory", "nvidia.com/gpu", "nvidia.com/mig-2g.20gb"
WANTED = "gpu-scheduler.io/gpu-memory"


def least(mib: int, *others: dict[str, Any], terms: int = 1) -> dict[str, Any]:
    """A spec with node affinity for GPUs of so many MiB, in so many terms."""
    wanted = {"key": MEMORY, "operator": "Gt", "values": [str(mib - 1)]}
    term = {"matchExpressions": [wanted, *others]}
    required = {"nodeSelectorTerms": [term] * terms}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


def wants(amount: str, *, gpus: int = 0, mig: dict[str, int] | None = None, **more: Any) -> Pod:
    return pod(gpus=gpus, mig=mig or {}, annotations={WANTED: amount}, **more)


SHARES = [
    pytest.param("20Gi", {"nvidia.com/gpu.replicas": "4"}, 6141, id="a-quarter-is-too-small"),
    pytest.param("10Gi", {"nvidia.com/gpu.replicas": "2"}, None, id="half-is-enough"),
    pytest.param("20Gi", {"nvidia.com/gpu.replicas": "1"}, None, id="not-shared"),
    pytest.param("20Gi", {}, None, id="nothing-about-shares"),
    pytest.param("20Gi", {"nvidia.com/gpu.replicas": "x"}, None, id="shares-that-are-no-number"),
]


@pytest.mark.parametrize(("amount", "labels", "have"), SHARES)
def test_a_share_of_a_gpu_counts_with_its_part_of_the_memory(
    amount: str, labels: dict[str, str], have: int | None
) -> None:
    node_info = NodeInfo(node(gpus=4, labels={MEMORY: "24564", **labels}))
    said = [reason.text for reason in gpu_memory.check_share(wants(amount, gpus=1), node_info)]
    text = (
        f"node(s) where {GPU} is one of 4 shares of a GPU with {have} MiB for each"
        f" (6.0Gi; the pod requests 20Gi)"
    )
    assert said == ([text] if have else [])


@pytest.mark.parametrize(
    ("shares", "amount", "is_refused"),
    [("3", "20Gi", True), ("3", "6Gi", False), ("1", "20Gi", False)],
    ids=["a-third-is-too-small", "a-third-is-enough", "not-shared"],
)
def test_share_of_a_mig_instance_counts_its_part_of_the_memory(
    shares: str, amount: str, is_refused: bool
) -> None:
    node_info = NodeInfo(node(mig={"2g.20gb": 6}, labels={f"{MIG}.replicas": shares}))
    found = gpu_memory.check_share(wants(amount, mig={"2g.20gb": 1}), node_info)
    assert bool(found) is is_refused


def test_each_container_has_its_own_amount() -> None:
    """Only the largest amount of each resource counts, and a container without one has none."""
    newcomer = pod(
        containers=[container("a", gpus=1), container("b", gpus=1), container("c", gpus=1)],
        annotations={WANTED: "a=4Gi,b=9Gi"},
    )
    assert newcomer.gpu_memory == {GPU: 9 << 30}


def test_a_pod_without_the_annotation_takes_any_share() -> None:
    node_info = NodeInfo(node(gpus=4, labels={MEMORY: "24564", "nvidia.com/gpu.replicas": "4"}))
    assert gpu_memory.check_share(pod(gpus=1), node_info) == ()
    assert pod(gpus=1).equivalence_class != wants("1Gi", gpus=1).equivalence_class


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
LABELS = [
    pytest.param({}, least(100), "node(s) without the label", id="no-label"),
    pytest.param({MEMORY: "many"}, least(100), "node(s) without the label", id="no-number"),
    pytest.param({MEMORY: "99"}, least(100), f"node(s) whose {MEMORY} is 99 MiB", id="too-small"),
    pytest.param({MEMORY: "99"}, least(100, terms=2), f"node(s) whose {MEMORY}", id="two-terms"),
    pytest.param({}, least(100, ZONE), "node(s) didn't match", id="and-not-that-zone"),
    pytest.param({"zone": "a"}, least(100, ZONE), "node(s) without the label", id="in-that-zone"),
]


@pytest.mark.parametrize(("labels", "spec", "begin"), LABELS)
def test_node_lacking_only_gpu_memory_has_its_own_reason(
    labels: dict[str, str], spec: dict[str, Any], begin: str
) -> None:
    newcomer = pod(gpus=1, spec=spec)
    filters = ALLOW_ALL_MAPS.points(newcomer).class_filters
    [reason] = first_rejection(newcomer, NodeInfo(node(gpus=1, labels=labels)), filters)
    assert reason.text.startswith(begin)
    if "didn't" not in begin:
        assert reason.text.endswith("the pod needs 0.1Gi: 100 MiB)")


@pytest.mark.parametrize(
    ("amount", "labels", "text"),
    [
        pytest.param("16Gi", {MEMORY: "15360"}, "(15Gi; the pod requests 16Gi)", id="gib"),
        pytest.param("200G", {MEMORY: "81559"}, "(79.6Gi; the pod requests 200G)", id="decimal"),
        pytest.param("16Gi", {}, f"label {MEMORY} (the pod requests 16Gi)", id="unknown"),
    ],
)
def test_reason_has_the_requested_amount_in_the_author_s_unit(
    amount: str, labels: dict[str, str], text: str
) -> None:
    """The webhook wrote the requirement in the MiB of the label."""
    mib = least_mib(quantity.value(amount))
    newcomer = wants(amount, gpus=1, spec=least(mib))
    [reason] = gpu_memory.check_label(newcomer, NodeInfo(node(gpus=1, labels=labels)))
    assert reason.text.endswith(text)


@pytest.mark.parametrize(
    ("floor", "text"),
    [
        pytest.param("16Gi", "the pod's gpu-scheduler.io/memory-floor is 16Gi)", id="gib"),
        pytest.param("200G", "the pod's gpu-scheduler.io/memory-floor is 200G)", id="decimal"),
        pytest.param("x", "the pod needs 15.0Gi: 15401 MiB)", id="invalid"),
    ],
)
def test_reason_has_the_memory_floor_in_the_author_s_unit(floor: str, text: str) -> None:
    mib = 15401 if floor == "x" else least_mib(quantity.value(floor))
    newcomer = pod(gpus=1, spec=least(mib), annotations={well_known.MEMORY_FLOOR: floor})
    [reason] = gpu_memory.check_label(newcomer, NodeInfo(node(gpus=1, labels={MEMORY: "99"})))
    assert reason.text.endswith(text)


def test_pods_with_other_memory_floors_are_of_other_classes() -> None:
    """The reason has the floor, and pods of one class share their reasons."""
    floors: tuple[dict[str, str], ...]
    floors = {well_known.MEMORY_FLOOR: "16Gi"}, {well_known.MEMORY_FLOOR: "17G"}, {}
    classes = {pod(gpus=1, spec=least(9), annotations=one).equivalence_class for one in floors}
    assert len(classes) == len(floors)


def test_node_selector_is_checked_before_gpu_memory() -> None:
    newcomer = pod(gpus=1, selector={"zone": "a"}, spec=least(100))
    filters = ALLOW_ALL_MAPS.points(newcomer).class_filters
    [reason] = first_rejection(newcomer, NodeInfo(node(gpus=1)), filters)
    assert reason == node_affinity.NO[0]
