"""The simulator places groups as the scheduler does: whole, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuctl.input_error import InputError
from gpuctl.simulate.input import simulate
from gpuctl.simulate.manifests import read
from scheduler.config import Config

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node"},
    "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"}},
}


def statefulset(name: str, replicas: int, meta: dict[str, Any], **spec: Any) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    meta = {**meta, "labels": {"app": name, **meta.get("labels", {})}}
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
                "spec": {"schedulerName": "gpu-scheduler", "containers": [container], **spec},
            },
        },
    }


def labelled(name: str, replicas: int, minimum: int) -> dict[str, Any]:
    meta = {
        "labels": {"gpu-scheduler.io/group": name},
        "annotations": {"gpu-scheduler.io/group-min": str(minimum)},
    }
    return statefulset(name, replicas, meta)


def pod_group(version: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "set"}, "spec": spec}


def told(tmp_path: Path, *objects: dict[str, Any]) -> dict[str, tuple[str | None, str]]:
    """By pod: its node and what its reason ends with."""
    file = tmp_path / "input.yaml"
    file.write_text(yaml.safe_dump_all([NODE, *objects]), encoding="utf-8")
    rows = simulate(read([str(file)]), Config()).rows
    return {row.pod: (row.node, (row.reason or "").partition(": ")[2]) for row in rows}


def test_a_group_without_room_leaves_it_to_another(tmp_path: Path) -> None:
    found = told(tmp_path, labelled("large", 5, 5), labelled("small", 3, 3))

    assert {pod: node for pod, (node, _) in found.items() if pod.startswith("large")} == {
        f"large-{rank}": None for rank in range(5)
    }
    assert all(found[f"small-{rank}"] == ("node", "") for rank in range(3))


def test_an_incomplete_group_names_its_missing_members(tmp_path: Path) -> None:
    found = told(tmp_path, labelled("train", 2, 4))

    expected = "waiting for members 2/4 of group train; no pod has the index 2 3."
    assert found == {"train-0": (None, expected), "train-1": (None, expected)}


IN_A_PLUGIN_GROUP = statefulset("t", 2, {"labels": {"scheduling.x-k8s.io/pod-group": "set"}})
IN_AN_API_GROUP = statefulset("t", 2, {}, schedulingGroup={"podGroupName": "set"})
PLUGINS, API = "scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1beta1"


def of_count(count: Any) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": count}}}


@pytest.mark.parametrize(
    ("version", "spec", "pods"),
    [
        pytest.param(PLUGINS, {"minMember": 3}, IN_A_PLUGIN_GROUP, id="scheduler-plugins"),
        pytest.param(API, of_count(3), IN_AN_API_GROUP, id="API server"),
        pytest.param(
            "scheduling.k8s.io/v1alpha3", of_count(3), IN_AN_API_GROUP, id="older version"
        ),
    ],
)
def test_a_pod_group_has_the_minimum(
    tmp_path: Path, version: str, spec: dict[str, Any], pods: dict[str, Any]
) -> None:
    found = told(tmp_path, pods, pod_group(version, spec))

    expected = "waiting for members 2/3 of group set; no pod has the index 2."
    assert found == {"t-0": (None, expected), "t-1": (None, expected)}


def test_a_pod_group_that_is_not_in_the_input_is_not_found(tmp_path: Path) -> None:
    other = {**pod_group(PLUGINS, {"minMember": 2}), "metadata": {"name": "other"}}

    found = told(tmp_path, IN_A_PLUGIN_GROUP, other)

    expected = "group not found: PodGroup.scheduling.x-k8s.io default/set does not exist."
    assert {reason for _, reason in found.values()} == {expected}


def test_pods_are_placed_alone_where_no_input_has_pod_groups(tmp_path: Path) -> None:
    found = told(tmp_path, IN_A_PLUGIN_GROUP)

    assert [node for node, _ in found.values()] == ["node", "node"]


@pytest.mark.parametrize(
    ("version", "spec", "problem"),
    [
        pytest.param(API, of_count("x"), "minCount: expected a number", id="no number"),
        pytest.param(PLUGINS, {"minMember": 99999}, "spec.minMember: is 99999", id="too large"),
    ],
)
def test_a_pod_group_that_the_cluster_could_not_read_is_an_error(
    tmp_path: Path, version: str, spec: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        told(tmp_path, pod_group(version, spec))
