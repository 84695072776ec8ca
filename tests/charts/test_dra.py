"""The fake operator's chart with DRA: classes, roles, folders and which plugin stays beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendering import FAKE, Json, config_file, objects, one, settings


def config(found: list[Json]) -> Json:
    parsed: Json = yaml.safe_load(config_file(found))
    return parsed


def classes(found: list[Json]) -> dict[str, Json]:
    return {
        each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "DeviceClass"
    }


@pytest.mark.contract("S1-68")
@pytest.mark.parametrize("switch", ["draPlugin.enabled=true", "kwokDraPlugin.enabled=true"])
def test_either_switch_brings_the_classes(switch: str) -> None:
    """``gpu.nvidia.com`` with the seed's expression and ``extendedResourceName: nvidia.com/gpu``;
    not where ``nvidiaDraDriver`` brings them, and not by default."""
    found = classes(objects(FAKE, *settings(switch)))

    assert found["gpu.nvidia.com"] == {
        "selectors": [
            {
                "cel": {
                    "expression": "device.driver == 'gpu.nvidia.com' && "
                    "device.attributes['gpu.nvidia.com'].type == 'gpu'"
                }
            }
        ],
        "extendedResourceName": "nvidia.com/gpu",
    }
    assert "mig.nvidia.com" in found
    assert classes(objects(FAKE, *settings(switch, "nvidiaDraDriver.enabled=true"))) == {}
    assert classes(objects(FAKE)) == {}


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        pytest.param((), None, id="off"),
        pytest.param(
            ("draPlugin.enabled=true",), {"kubelet": "beside", "kwok": "none"}, id="kubelet"
        ),
        pytest.param(
            ("draPlugin.enabled=true", "devicePlugin.enabled=false"),
            {"kubelet": "instead", "kwok": "none"},
            id="the-seeds-example",
        ),
        pytest.param(
            ("kwokDraPlugin.enabled=true", "kwokGpuDevicePlugin.enabled=false"),
            {"kubelet": "none", "kwok": "instead"},
            id="kwok",
        ),
    ],
)
def test_the_switches_become_the_configuration(sets: tuple[str, ...], expected: Any) -> None:
    assert config(objects(FAKE, *settings(*sets))).get("dra") == expected


@pytest.mark.contract("S1-66")
def test_the_agent_has_the_folders_of_a_dra_driver() -> None:
    """On nodes without device plugin and exporter too: ``/var/run/cdi``, port 51515. One agent does
    what the seed's ``dra-plugin-gpu`` does."""
    sets = ("draPlugin.enabled=true", "devicePlugin.enabled=false", "statusExporter.enabled=false")
    agent = one(objects(FAKE, *settings(*sets)), "DaemonSet")
    spec = agent["spec"]["template"]["spec"]

    paths = {each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
    wanted = {"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/run/cdi"}
    assert wanted <= paths
    mounts = {each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
    assert wanted <= mounts
    ports = {each["name"]: each["containerPort"] for each in spec["containers"][0]["ports"]}
    assert ports["dra-health"] == 51515


@pytest.mark.contract("S1-B33")
def test_every_part_runs_the_one_image() -> None:
    """So no component can be missing where images are built, ``kwok-compute-domain-dra-plugin``
    neither."""
    values: Path = FAKE / "ci" / "everything-values.yaml"
    found = objects(FAKE, "--values", values, *settings("draPlugin.enabled=true"))
    images = {
        container["image"]
        for each in found
        if each["kind"] in ("Deployment", "DaemonSet") and each["spec"].get("replicas") != 0
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert len(images) == 1, images


@pytest.mark.contract("S1-73")
def test_one_switch_brings_all_of_compute_domains() -> None:
    """``computeDomainDraPlugin.enabled``: kind, class of channels with id 0, rights, folders and
    the health port 8082; nothing of it by default."""
    name = "computedomains.resource.nvidia.com"
    found = objects(FAKE, *settings("computeDomainDraPlugin.enabled=true"))

    assert one(found, "CustomResourceDefinition", name)
    (spec,) = classes(found).values()
    expression = spec["selectors"][0]["cel"]["expression"]
    domain = "device.attributes['compute-domain.nvidia.com']"
    assert expression.split(" && ") == [
        "device.driver == 'compute-domain.nvidia.com'",
        f"{domain}.type == 'channel'",
        f"{domain}.id == 0",
    ]
    assert config(found)["computeDomains"] == {"enabled": True}
    assert "dra" not in config(found)
    container = one(found, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    assert {"/etc/cdi", "/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry"} <= {
        each["mountPath"] for each in container["volumeMounts"]
    }
    assert 8082 in [each["containerPort"] for each in container["ports"]]
    assert not [each for each in objects(FAKE) if "domain" in each["metadata"]["name"]]
