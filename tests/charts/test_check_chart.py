"""The check chart: pods on nodes that the scheduler chooses, or as a map says."""

from __future__ import annotations

import pytest

from tests.charts.rendering import CHECK, Json, containers, objects, one, preset, settings, text
from tools.charts.helm import HelmFailed


def workload(*sets: str, values: tuple[str, ...] = ()) -> Json:
    """The StatefulSet of these settings, over a preset of the chart if one is named."""
    words = [word for name in values for word in preset(name, CHECK)]
    return one(objects(CHECK, *words, *settings(*sets)), "StatefulSet")


def limits(found: Json) -> Json:
    resources: Json = containers(found)["gpu-scheduler-check"]["resources"]["limits"]
    return resources


def test_default_pod_requests_one_gpu_and_names_no_node() -> None:
    found = workload()

    assert found["spec"]["replicas"] == 1
    assert limits(found)["nvidia.com/gpu"] == 1
    assert "annotations" not in found["spec"]["template"]["metadata"]
    assert found["spec"]["template"]["spec"]["schedulerName"] == "gpu-scheduler"


def test_another_resource_can_be_requested() -> None:
    found = workload("gpuScheduling.resource=nvidia.com/mig-1g\\.10gb", "replicaCount=3")

    assert found["spec"]["replicas"] == 3
    assert [name for name in limits(found) if "/" in name] == ["nvidia.com/mig-1g.10gb"]


def test_pods_with_a_map_request_no_device_and_match_its_lines() -> None:
    found = workload(values=("map",))

    assert found["spec"]["replicas"] == 5
    assert set(limits(found)) == {"cpu", "memory"}


def test_pods_of_the_default_scheduler_request_no_gpu() -> None:
    found = workload(values=("default-scheduler",))

    assert set(limits(found)) == {"cpu", "memory"}
    assert "schedulerName" not in found["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        pytest.param("6", "6 pods, but gpuScheduling.schedulingMap has no entry with podIndex 5"),
        pytest.param("9", "no entry with podIndex 5; add it or lower replicaCount"),
    ],
)
def test_more_pods_than_lines_of_the_map_are_refused(replicas: str, said: str) -> None:
    with pytest.raises(HelmFailed, match=said):
        text(CHECK, *preset("map", CHECK), *settings(f"replicaCount={replicas}"))


def test_fewer_pods_than_lines_of_the_map_are_rendered() -> None:
    assert workload("replicaCount=0", values=("map",))["spec"]["replicas"] == 0
