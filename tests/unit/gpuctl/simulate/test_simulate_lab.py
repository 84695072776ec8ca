"""Pods of seed 004's lab, word for word but for their images, on the lab's three kinds of nodes."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.gpuctl.cli import Json, node, places, pod, rows, spec

#: What the fake GPU operator writes on its nodes, and the lab on its own.
LABELS = {
    "gpu-node-1": {"nvidia.com/gpu": "true", "gpu-type": "a100"},
    "gpu-node-2": {"nvidia.com/gpu": "true", "gpu-type": "v100"},
    "gpu-node-3": {"nvidia.com/gpu": "true", "gpu-type": "t4"},
}
FLEXIBLE = yaml.safe_load("""
apiVersion: v1
kind: Pod
metadata:
  name: flexible-gpu-pod
spec:
  schedulerName: gpu-scheduler
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - key: nvidia.com/gpu
            operator: Exists
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        preference:
          matchExpressions:
          - key: gpu-type
            operator: In
            values: [a100]
      - weight: 50
        preference:
          matchExpressions:
          - key: gpu-type
            operator: In
            values: [v100]
  containers:
  - name: training
    image: none
    resources:
      limits:
        nvidia.com/gpu: 1
""")
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
TOLERATED = yaml.safe_load("""
apiVersion: v1
kind: Pod
metadata:
  name: tolerated-gpu-pod
spec:
  schedulerName: gpu-scheduler
  tolerations:
  - {key: dedicated, operator: Equal, value: gpu, effect: NoSchedule}
  nodeSelector:
    nvidia.com/gpu: "true"
  containers:
  - name: training
    image: none
    resources:
      limits:
        nvidia.com/gpu: 1
""")


def lab(free: dict[str, int]) -> list[Json]:
    """Nodes of the lab with so many free GPUs, and one without its labels."""
    return [node("plain", gpu=8), *(node(name, LABELS[name], gpu=free[name]) for name in free)]


@pytest.mark.contract("S4-28", "S4-9")
@pytest.mark.parametrize(
    ("free", "chosen"),
    [
        pytest.param({"gpu-node-1": 1, "gpu-node-2": 1, "gpu-node-3": 1}, "gpu-node-1", id="a100"),
        pytest.param({"gpu-node-2": 1, "gpu-node-3": 1}, "gpu-node-2", id="else-v100"),
        pytest.param({"gpu-node-3": 1}, "gpu-node-3", id="else-any-with-the-label"),
        pytest.param({}, None, id="none-without-the-label"),
    ],
)
def test_the_flexible_pod_takes_the_kind_that_it_likes_best(
    free: dict[str, int], chosen: str | None
) -> None:
    assert places(rows(*lab(free), FLEXIBLE)) == {"flexible-gpu-pod": chosen}


@pytest.mark.contract("S4-29", "S4-10")
def test_the_labs_taint_keeps_pods_without_its_toleration_away() -> None:
    """A pod without a GPU, which any node would do for, and one that tolerates the taint."""
    tainted = node("gpu-node-1", LABELS["gpu-node-1"], gpu=1)
    tainted["spec"] = {"taints": [TAINT]}

    found = places(rows(tainted, pod("web", spec()), TOLERATED))

    assert found == {"web": None, "tolerated-gpu-pod": "gpu-node-1"}
