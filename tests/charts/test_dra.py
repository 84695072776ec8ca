"""The fake operator's chart with DRA: classes, roles, folders and which plugin stays beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendering import FAKE, PLACES, Json, config_file, objects, one, settings
from tools.charts.helm import HELMS, HelmFailed, template

KUBELET = ("draPlugin.enabled=true", "devicePlugin.enabled=false")
KWOK = ("kwokDraPlugin.enabled=true", "kwokGpuDevicePlugin.enabled=false")
PARTS = "operatorConfig.dra.partitionable=true"


def config(found: list[Json]) -> Json:
    parsed: Json = yaml.safe_load(config_file(found))
    return parsed


def classes(found: list[Json]) -> dict[str, Json]:
    return {
        each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "DeviceClass"
    }


@pytest.mark.contract("S1-68", "S1-81")
@pytest.mark.parametrize("switch", ["draPlugin.enabled=true", "kwokDraPlugin.enabled=true"])
def test_either_dra_switch_installs_the_device_classes(switch: str) -> None:
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
            ("draPlugin.enabled=true", "kwokDraPlugin.enabled=true"),
            {"kubelet": "beside", "kwok": "beside"},
            id="the-seeds-example-for-kwok",
        ),
        pytest.param(KUBELET, {"kubelet": "instead", "kwok": "none"}, id="the-seeds-example"),
        pytest.param(KWOK, {"kubelet": "none", "kwok": "instead"}, id="kwok"),
        pytest.param(
            (*KWOK, PARTS),
            {"kubelet": "none", "kwok": "instead", "partitionable": True},
            id="in-parts",
        ),
        pytest.param(
            ("operatorConfig.dra.partitionable=false",), {"partitionable": False}, id="whole"
        ),
    ],
)
def test_dra_switches_are_passed_to_the_configuration(sets: tuple[str, ...], expected: Any) -> None:
    assert config(objects(FAKE, *settings(*sets))).get("dra") == expected


@pytest.mark.parametrize("by", HELMS)
@pytest.mark.parametrize(
    ("sets", "where", "instead"),
    [
        pytest.param(
            ("operatorConfig.dra.kubelet=instead",),
            "operatorConfig.dra.kubelet",
            "set draPlugin.enabled and devicePlugin.enabled",
            id="dra-by-hand",
        ),
        pytest.param(
            (*KUBELET, "operatorConfig.dra.kubelet=none"),
            "operatorConfig.dra.kubelet",
            "leave it out",
            id="dra-by-hand-against-the-switch",
        ),
        pytest.param(
            ("operatorConfig.dra.kwok=beside",),
            "operatorConfig.dra.kwok",
            "set kwokDraPlugin.enabled and kwokGpuDevicePlugin.enabled",
            id="kwok-by-hand",
        ),
        pytest.param(
            (*KUBELET, "operatorConfig.dra.registrarFolder=/registry"),
            "operatorConfig.dra.registrarFolder",
            "set devicePlugin.kubeletFolder",
            id="a-folder-that-is-not-mounted",
        ),
        pytest.param(
            (*KUBELET, "operatorConfig.dra.pluginsFolder=/plugins"),
            "operatorConfig.dra.pluginsFolder",
            "set devicePlugin.kubeletFolder",
            id="another-folder-that-is-not-mounted",
        ),
        pytest.param(
            ("operatorConfig.computeDomains.enabled=true",),
            "operatorConfig.computeDomains.enabled",
            "set computeDomainDraPlugin.enabled",
            id="domains-by-hand",
        ),
        pytest.param(
            ("operatorConfig.nodeResourceTopology.enabled=true",),
            "operatorConfig.nodeResourceTopology.enabled",
            "set statusExporter.nodeResourceTopology.enabled",
            id="zones-by-hand",
        ),
        pytest.param(
            ("operatorConfig.node.podResourcesFolder=/zones",),
            "operatorConfig.node.podResourcesFolder",
            "set statusExporter.podResources.enabled",
            id="pod-resources-by-hand",
        ),
        pytest.param(
            ("draPlugin.enabled=true", PARTS), PARTS, "devicePlugin.enabled=false", id="two-owners"
        ),
        pytest.param(
            ("kwokDraPlugin.enabled=true", PARTS),
            PARTS,
            "kwokGpuDevicePlugin.enabled=false",
            id="two-owners-on-kwok",
        ),
        pytest.param((PARTS,), PARTS, "draPlugin.enabled=true", id="parts-without-dra"),
        pytest.param(
            ("kwokGpuDevicePlugin.enabled=false",),
            "kwokGpuDevicePlugin.enabled=false",
            "set kwokDraPlugin.enabled=true too",
            id="kwok-gpus-without-a-publisher",
        ),
    ],
)
def test_useless_or_conflicting_dra_values_are_refused(
    sets: tuple[str, ...], where: str, instead: str, by: str
) -> None:
    """In one line that begins with the value and says what to set."""
    release, namespace = PLACES[FAKE.name]
    with pytest.raises(HelmFailed) as refused:
        template(FAKE, release=release, namespace=namespace, words=settings(*sets), by=by)
    (line,) = [each for each in str(refused.value).splitlines() if "validation.yaml" in each]
    _, _, said = line.partition("validation.yaml:")
    assert f" {where}: " in said
    assert instead in said


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
def test_every_container_runs_the_same_image() -> None:
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
def test_one_switch_installs_compute_domains() -> None:
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
