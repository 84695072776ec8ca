"""The fake operator's chart beside others: tools that look for an operator, real GPUs, Run:ai,
NUMA zones, Grafana.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from fakegpu.exporter.metrics import Exported, render
from fakegpu.node.telemetry import read_all
from fakegpu.topology.document import read_profile, read_topology
from tests.charts.rendering import (
    FAKE,
    config_of,
    containers,
    kinds,
    objects,
    one,
    preset,
    settings,
)
from tests.unit.fakegpu.nodes import fake
from tools.charts.copies import ROOT
from tools.release import present

SERIES = re.compile(r"\bDCGM_[A-Z_]+\b")


def told() -> set[str]:
    """The names of all exported series."""
    topology = fake("gpus: [{type: t4, count: 1}]")
    gpus = read_all(topology, lambda low, high: low, lambda uid: 0)
    return set(SERIES.findall(render(Exported("n", gpu) for gpu in gpus)))


@pytest.mark.contract("S1-1", "S1-80")
def test_chart_installs_with_the_seed_commands_in_any_namespace() -> None:
    """``helm install gpu-operator fake-gpu-operator -n gpu-operator``."""
    meta = yaml.safe_load((FAKE / "Chart.yaml").read_text(encoding="utf-8"))
    assert meta["name"] == "fake-gpu-operator"
    images = {
        container["image"]
        for each in objects(FAKE, release="gpu-operator", namespace="gpu-operator")
        if each["kind"] in ("Deployment", "DaemonSet")
        for container in containers(each).values()
    }
    assert images == {f"gpu-scheduler:{present()}"}


@pytest.mark.contract("S1-B1")
def test_every_object_uses_the_release_namespace() -> None:
    found = objects(FAKE, release="mine", namespace="elsewhere")

    theirs = {each["metadata"].get("namespace") for each in found} - {None}
    assert theirs == {"elsewhere", "kube-system"}
    plugin = [each for each in found if each["metadata"].get("namespace") == "kube-system"]
    assert {each["kind"] for each in plugin} == {"Role", "RoleBinding"}, "the plugin's files"
    assert config_of(found).topology.namespace == "elsewhere"
    subjects = [one for each in found for one in each.get("subjects", [])]
    assert {one["namespace"] for one in subjects} == {"elsewhere"}


@pytest.mark.contract("S1-21", "S1-23")
def test_custom_profiles_become_config_maps_of_the_operator() -> None:
    """``customProfiles`` stand beside the built-in ones."""
    text = "device_defaults: {name: NVIDIA X1, memory: {total_bytes: 17179869184}}"
    found = objects(FAKE, "--set-json", json.dumps({"customProfiles": {"x1": text}}))
    data = one(found, "ConfigMap", "gpu-profile-x1")["data"]
    profile = read_profile(data["profile.yaml"])

    pools = "nodePools: {p: {gpu: {profile: x1, overrides: {device_count: 3}}}}"
    pool = read_topology(pools, {"x1": profile}).pools["p"]

    assert [gpu.product for gpu in pool.gpus] == ["NVIDIA X1"] * 3


@pytest.mark.contract("S1-B22")
def test_every_image_pull_secret_named_by_a_pod_exists() -> None:
    """``gcr-secret`` was one: pods name the values' ``imagePullSecrets``, and by default none."""

    def secrets(*words: str) -> list[Any]:
        return [
            each["spec"]["template"]["spec"].get("imagePullSecrets")
            for each in objects(FAKE, *words)
            if each["kind"] in ("Deployment", "DaemonSet")
        ]

    assert set(secrets()) == {None}
    assert "gcr-secret" not in str(objects(FAKE))
    mine = secrets(*settings("imagePullSecrets[0].name=mine"))
    assert [{"name": "mine"}] in mine


@pytest.mark.contract("S1-74")
def test_operator_discovery_finds_the_fake_one_unless_a_real_one_runs() -> None:
    found = objects(FAKE)
    assert one(found, "Deployment", "gpu-operator")["spec"]["replicas"] == 0
    names = one(found, "CustomResourceDefinition", "clusterpolicies.nvidia.com")["spec"]["names"]
    assert names["kind"] == "ClusterPolicy"

    without = objects(FAKE, *settings("placeholders.enabled=false"))
    assert "CustomResourceDefinition" not in kinds(without)
    assert {e["metadata"]["name"] for e in without if e["kind"] == "Deployment"} == {
        "fake-gpu-operator"
    }


@pytest.mark.contract("S1-76")
def test_chart_renders_nothing_that_a_real_gpu_operator_provides() -> None:
    """Real nodes are left alone: only labelled ones are in a pool."""
    found = objects(FAKE, *preset("beside-real-gpus", FAKE), namespace="fake-gpu-operator")

    assert not {"DaemonSet", "RuntimeClass", "CustomResourceDefinition"} & kinds(found)
    names = {(each["kind"], each["metadata"]["name"]) for each in found}
    assert ("Service", "nvidia-dcgm-exporter") not in names
    assert ("Deployment", "gpu-operator") not in names
    assert ("Service", "nvidia-dcgm-exporter-kwok") in names, "fake nodes have metrics"


@pytest.mark.contract("S1-51")
def test_the_kwok_exporters_service_leads_to_the_controller() -> None:
    found = objects(FAKE)
    service = one(found, "Service", "nvidia-dcgm-exporter-kwok")

    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (9400, "http")
    pod = one(found, "Deployment", "fake-gpu-operator")["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


@pytest.mark.contract("S1-44")
def test_runai_metric_names_are_optional_and_unique() -> None:
    """A rule ``fake-gpu-operator-kwok-dcgm`` with three records of exported series."""
    assert "PrometheusRule" not in kinds(objects(FAKE))
    found = objects(FAKE, *settings("statusUpdater.runaiIntegration.enabled=true"))
    rule = one(found, "PrometheusRule", "fake-gpu-operator-kwok-dcgm")
    assert rule["metadata"]["namespace"] == "runai"
    assert rule["metadata"]["labels"]["app"] == "nvidia-dcgm-exporter"
    (group,) = rule["spec"]["groups"]
    assert group["name"] == "kwok-dcgm-metrics"
    records = {each["record"]: each["expr"] for each in group["rules"]}
    assert set(records) == {
        "runai_dcgm_gpu_utilization",
        "runai_dcgm_gpu_used_mebibytes",
        "runai_dcgm_gpu_total_mebibytes",
    }
    for expression in records.values():
        assert set(SERIES.findall(expression)) <= told()
        assert "group_left(nodepool) runai_node_nodepool_excluded" in expression


@pytest.mark.contract("S1-52", "S1-53")
def test_numa_zones_are_optional_with_rights_crd_and_sockets() -> None:
    plain = objects(FAKE)
    assert not config_of(plain).node_resource_topology.enabled
    assert "NodeResourceTopology" not in str(plain)
    zones = "statusExporter.nodeResourceTopology"
    found = objects(FAKE, *settings(f"{zones}.enabled=true"))
    assert config_of(found).node_resource_topology.enabled
    one(found, "ClusterRole", "fake-gpu-operator-zones")
    crd = "noderesourcetopologies.topology.node.k8s.io"
    kept = one(found, "CustomResourceDefinition", crd)["metadata"]["annotations"]
    assert kept["helm.sh/resource-policy"] == "keep"
    bare = objects(FAKE, *settings(f"{zones}.enabled=true,{zones}.installCRD=false"))
    assert crd not in {each["metadata"]["name"] for each in bare}

    served = objects(FAKE, *settings("statusExporter.podResources.enabled=true"))
    folder = config_of(served).node.pod_resources_folder
    daemon = one(served, "DaemonSet")
    (container,) = containers(daemon).values()
    (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == folder]
    volumes = {v["name"]: v for v in daemon["spec"]["template"]["spec"]["volumes"]}
    assert volumes[mount["name"]]["hostPath"]["path"] == "/var/lib/fake-gpu-operator"


@pytest.mark.contract("S4-13")
def test_lab_dashboard_imports_and_queries_exported_series() -> None:
    found = objects(
        FAKE,
        *settings(
            "statusExporter.dashboard.enabled=true,statusExporter.dashboard.namespace=monitoring"
        ),
    )
    gpu_model = one(found, "ConfigMap", "gpu-dashboard")
    assert gpu_model["metadata"]["namespace"] == "monitoring"
    assert gpu_model["metadata"]["labels"]["grafana_dashboard"] == "1"
    content = json.loads(gpu_model["data"]["gpu-dashboard.json"])
    assert content["title"] == "GPU Utilization"
    titles = [panel["title"] for panel in content["panels"]]
    assert titles == ["GPU Utilization %", "GPU Memory Used", "GPU Temperature"]
    for panel in content["panels"]:
        assert set(SERIES.findall(panel["targets"][0]["expr"])) <= told()
        assert {"type", "datasource", "gridPos"} <= panel.keys()


@pytest.mark.contract("S1-77")
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("build", "venv"),
        ("lint", "lint"),
        ("chart-render-guard", "test-charts"),
        ("test", "test"),
        ("e2e", "e2e"),
        ("setup-e2e", "controlplane"),
        ("teardown-e2e", "clean"),
    ],
)
def test_seed_make_targets_have_counterparts(theirs: str, ours: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "fakegpu.md").read_text(encoding="utf-8")

    assert re.search(rf"^{ours}:.*## ", makefile, re.MULTILINE)
    assert f"| `make {theirs}` | `make {ours}` |" in page
