"""Examples of workloads: what their controllers write is what the user asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import yaml

from tests.unit.docs.sources import ROOT

EXAMPLES = ROOT / "examples"
GPU = "nvidia.com/gpu"


def objects(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8")))


def containers(spec: dict[str, Any]) -> Counter[tuple[str, int]]:
    """Image and GPUs of each container."""
    return Counter(
        (one["image"], one["resources"].get("limits", {}).get(GPU, 0)) for one in spec["containers"]
    )


def requested(name: str) -> Counter[tuple[str, int]]:
    """The containers of every replica of a PyTorchJob or a RayCluster."""
    (job,) = objects(name)
    spec = job["spec"]
    roles = [
        *spec.get("pytorchReplicaSpecs", {}).values(),
        *([spec["headGroupSpec"]] if "headGroupSpec" in spec else []),
        *spec.get("workerGroupSpecs", []),
    ]
    found: Counter[tuple[str, int]] = Counter()
    for role in roles:
        for _ in range(role.get("replicas", 1)):
            found += containers(role["template"]["spec"])
    return found


@pytest.mark.parametrize(
    ("written", "pods"),
    [
        pytest.param("pytorchjob/pytorchjob.yaml", "pytorchjob/pods.yaml", id="pytorchjob"),
        pytest.param("raycluster/raycluster.yaml", "raycluster/pods.yaml", id="raycluster"),
    ],
)
def test_pods_have_the_images_and_gpus_of_the_object(written: str, pods: str) -> None:
    (owner,) = objects(written)
    found = objects(pods)

    assert sum((containers(pod["spec"]) for pod in found), Counter()) == requested(written)
    for pod in found:
        (reference,) = pod["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"], reference["controller"]) == (
            owner["kind"],
            owner["metadata"]["name"],
            True,
        )


@pytest.mark.parametrize("folder", ["jupyter", "pytorchjob", "raycluster", "vllm"])
def test_every_pod_names_this_scheduler(folder: str) -> None:
    text = "".join(path.read_text() for path in (EXAMPLES / folder).glob("*.yaml"))

    assert text.count("schedulerName: gpu-scheduler") >= text.count("containers:\n")
