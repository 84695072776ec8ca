"""The simulator places groups as the scheduler does: whole, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpuctl.simulate.input import simulate
from gpuctl.simulate.manifests import read
from scheduler.config import Config

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node"},
    "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"}},
}


def statefulset(name: str, replicas: int, minimum: int) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    meta = {
        "labels": {"app": name, "gpu-scheduler.io/group": name},
        "annotations": {"gpu-scheduler.io/group-min": str(minimum)},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": meta,
                "spec": {"schedulerName": "gpu-scheduler", "containers": [container]},
            },
        },
    }


def told(tmp_path: Path, *objects: dict[str, Any]) -> dict[str, tuple[str | None, str]]:
    """By pod: its node and what its reason ends with."""
    file = tmp_path / "input.yaml"
    file.write_text(yaml.safe_dump_all([NODE, *objects]), encoding="utf-8")
    rows = simulate(read([str(file)]), Config()).rows
    return {row.pod: (row.node, (row.reason or "").partition(": ")[2]) for row in rows}


def test_a_group_without_room_leaves_it_to_another(tmp_path: Path) -> None:
    found = told(tmp_path, statefulset("large", 5, 5), statefulset("small", 3, 3))

    assert {pod: node for pod, (node, _) in found.items() if pod.startswith("large")} == {
        f"large-{rank}": None for rank in range(5)
    }
    assert all(found[f"small-{rank}"] == ("node", "") for rank in range(3))


def test_an_incomplete_group_names_its_missing_members(tmp_path: Path) -> None:
    found = told(tmp_path, statefulset("train", 2, 4))

    expected = "waiting for members 2/4 of group train; no pod has the index 2 3."
    assert found == {"train-0": (None, expected), "train-1": (None, expected)}
