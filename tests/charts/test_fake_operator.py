"""The fake operator's chart: the names of the programs that it replaces, and values that work."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakegpu.environment import with_environment
from fakegpu.topology.document import read_topology
from fakegpu.topology.sharing import chosen, read_plugin_config
from tests.charts.rendering import (
    FAKE,
    Json,
    config_of,
    containers,
    kinds,
    objects,
    of,
    one,
    preset,
    settings,
    text,
    variants,
)
from tools.charts.copies import ROOT

AGENT = "nvidia-device-plugin-ctr"
#: The label by which the controller marks nodes with a kubelet.
SELECTOR = {"nvidia.com/gpu.deploy.device-plugin": "true"}
#: The Services.
EXPORTER, KWOK = "nvidia-dcgm-exporter", "nvidia-dcgm-exporter-kwok"
TOPOLOGY = "topology-server"
DEDICATED = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def agent(*words: str | Path) -> Json:
    """The DaemonSet."""
    return one(objects(FAKE, *words), "DaemonSet", "device-plugin")


def tolerates(pod: Json, taint: Json) -> bool:
    """As in the API: no key is every key, no effect every effect."""
    return any(
        each.get("key", taint["key"]) == taint["key"]
        and each.get("effect", taint["effect"]) == taint["effect"]
        and (each.get("operator") == "Exists" or each.get("value") == taint.get("value"))
        for each in pod["tolerations"]
    )


@pytest.mark.contract("S1-30", "S4-2")
def test_device_plugin_has_the_seed_names() -> None:
    """And is found by ``app.kubernetes.io/name=nvidia-device-plugin``."""
    found = objects(FAKE)
    daemon = one(found, "DaemonSet", "device-plugin")
    template = daemon["spec"]["template"]
    labels = {"app": "device-plugin", "component": "device-plugin"}
    assert labels.items() <= template["metadata"]["labels"].items()
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "nvidia-device-plugin"
    pod = template["spec"]
    assert pod["nodeSelector"] == SELECTOR
    assert pod["serviceAccountName"] == "nvidia-device-plugin"
    one(found, "ServiceAccount", "nvidia-device-plugin")
    one(found, "ClusterRole", "fake-device-plugin")
    assert tolerates(pod, {"key": "nvidia.com/gpu", "value": "x", "effect": "NoSchedule"})
    container = containers(daemon)[AGENT]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    on_host = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v}
    assert {on_host[name]: mounts[name] for name in on_host} == {
        "/var/lib/kubelet/device-plugins": "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet/pod-resources": "/var/lib/kubelet/pod-resources",
        "/var/lib/runai": "/runai",
    }


@pytest.mark.contract("S4-10", "S1-B32")
def test_daemon_set_tolerates_gpu_node_taints() -> None:
    """``dedicated=gpu:NoSchedule`` of the lab, and the taint that we part nodes by."""
    pod = agent()["spec"]["template"]["spec"]
    assert tolerates(pod, DEDICATED)
    assert tolerates(pod, DEDICATED | {"effect": "NoExecute"})
    assert tolerates(
        pod, {"key": "nvidia.com/gpu", "value": "gpu-scheduler", "effect": "NoExecute"}
    )
    assert not tolerates(pod, {"key": "other", "value": "gpu", "effect": "NoSchedule"})


@pytest.mark.contract("S1-46", "S1-B29", "S4-11")
def test_exporter_service_selects_agents_and_has_a_unique_name() -> None:
    """``nvidia-dcgm-exporter``, 9400, ``gpu-metrics``: a Service and no workload; no selector of
    the chart takes the pods of another."""
    found = objects(FAKE)
    service = one(found, "Service", "nvidia-dcgm-exporter")
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("gpu-metrics", 9400, "http")
    assert service["metadata"]["annotations"] == {"prometheus.io/scrape": "true"}
    assert service["metadata"]["labels"]["app"] == "nvidia-dcgm-exporter"
    workloads = [each for each in found if each["kind"] in ("Deployment", "DaemonSet")]
    assert "nvidia-dcgm-exporter" not in {each["metadata"]["name"] for each in workloads}
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in workloads
    }
    assert service["spec"]["selector"].items() <= labels["device-plugin"].items()
    for mine, other in itertools.permutations(workloads, 2):
        selector = mine["spec"]["selector"]["matchLabels"]
        assert not selector.items() <= labels[other["metadata"]["name"]].items()
    ports = containers(one(found, "DaemonSet"))[AGENT]["ports"]
    assert ports == [{"name": "http", "containerPort": 9400, "protocol": "TCP"}]


@pytest.mark.contract("S1-27", "S1-35", "S1-B32")
@pytest.mark.parametrize(
    ("words", "has_agent", "services"),
    [
        pytest.param((), True, {EXPORTER, KWOK, TOPOLOGY}, id="all"),
        pytest.param(("topologyServer.enabled=false",), True, {EXPORTER, KWOK}, id="no-topology"),
        pytest.param(("statusExporter.enabled=false",), True, {KWOK, TOPOLOGY}, id="no-metrics"),
        pytest.param(
            ("devicePlugin.enabled=false",),
            True,
            {EXPORTER, KWOK, TOPOLOGY},
            id="no-devicePlugin",
        ),
        pytest.param(
            ("devicePlugin.enabled=false", "statusExporter.enabled=false"),
            False,
            {KWOK, TOPOLOGY},
            id="no-agent",
        ),
    ],
)
def test_each_part_can_be_switched_off(
    words: tuple[str, ...], has_agent: bool, services: set[str]
) -> None:
    found = objects(FAKE, *settings(*words))
    assert ("DaemonSet" in kinds(found)) is has_agent
    accounts = {each["metadata"]["name"] for each in found if each["kind"] == "ServiceAccount"}
    assert ("nvidia-device-plugin" in accounts) is has_agent
    assert {each["metadata"]["name"] for each in found if each["kind"] == "Service"} == services
    node = config_of(found).node
    assert node.device_plugin is ("devicePlugin.enabled=false" not in words)
    assert node.exporter is ("statusExporter.enabled=false" not in words)


@pytest.mark.contract("S1-35", "S1-B32")
@pytest.mark.parametrize(
    "setting",
    [
        "devicePlugin.resources.limits.memory=1Gi",
        "devicePlugin.nodeSelector.a=b",
        "devicePlugin.tolerations[0].operator=Exists",
        "devicePlugin.affinity.nodeAffinity.x=y",
        "devicePlugin.priorityClassName=other",
        "devicePlugin.updateStrategy.type=OnDelete",
        "devicePlugin.podAnnotations.a=b",
        "devicePlugin.kubeletFolder=/k",
        "devicePlugin.hostFolder=/r",
        "devicePlugin.securityContext.privileged=true",
        "devicePlugin.livenessProbe.periodSeconds=77",
        "devicePlugin.readinessProbe.periodSeconds=77",
        "statusExporter.topologyMaxExportInterval=3s",
        "statusExporter.serviceMonitor=true",
        "statusExporter.kwok.enabled=false",
        "statusExporter.nodeResourceTopology.enabled=true",
        "statusExporter.podResources.enabled=true",
        "statusExporter.dashboard.enabled=true",
        "statusUpdater.runaiIntegration.enabled=true",
        "placeholders.enabled=false",
        "customProfiles.mine=device_count: 2",
        "statusUpdater.disableNodeLabeling=true",
        "prometheus.url=http://other:9090",
        "runtimeClass.enabled=false",
        "runtimeClass.name=n",
        "runtimeClass.handler=h",
        "environment.openshift=true",
        "image.pullPolicy=Never",
        "config.name=mine",
        "config.map.a=b",
        "operatorConfig.workers=3",
        "operatorConfig.node.port=9401",
        "controller.affinity.nodeAffinity.x=y",
        "controller.livenessProbe.periodSeconds=77",
        "controller.readinessProbe.periodSeconds=77",
        "controller.tolerations[0].key=other",
    ],
)
def test_every_value_has_an_effect(setting: str) -> None:
    assert text(FAKE, *settings(setting)) != text(FAKE)


@pytest.mark.parametrize(
    "values", [path for path in variants() if of(path) == FAKE], ids=lambda path: path.stem
)
def test_the_operator_accepts_what_each_variant_configures(values: Path) -> None:
    found = objects(FAKE, "--values", values)
    config = config_of(found)
    assert config.topology.namespace == "gpu-operator"
    pools = one(found, "ConfigMap", "topology")["data"]["topology.yml"]
    assert not read_topology(pools, {}).problems
    for daemon in (each for each in found if each["kind"] == "DaemonSet"):
        container = containers(daemon)[AGENT]
        (port,) = container["ports"]
        assert port["containerPort"] == config.node.port
        mounted = {each["mountPath"] for each in container["volumeMounts"]}
        assert f"{config.node.kubelet_folder}/device-plugins" in mounted
        assert config.node.folder in mounted
        (volume,) = (
            each
            for each in daemon["spec"]["template"]["spec"]["volumes"]
            if each["name"] == "runai"
        )
        assert volume["hostPath"]["path"] == config.node.host_folder


@pytest.mark.contract("S0-7", "S0-8", "S1-14")
def test_operator_reads_pools_label_key_and_strategy_values(tmp_path: Path) -> None:
    """The seed's file, and a further pool that is added to it."""
    values = yaml.safe_load((ROOT / "config/fake-gpu-values.yaml").read_text(encoding="utf-8"))
    h200 = {"gpuProduct": "NVIDIA-H200", "gpuCount": 4, "gpuMemory": 71680}
    assert values["topology"]["nodePools"] == {"small": h200, "medium": h200}
    assert values["topology"]["migStrategy"] == "mixed"
    values["topology"]["nodePools"]["large"] = h200
    values["topology"] |= {"nodePoolLabelKey": "example.com/pool", "migStrategy": "single"}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))

    rendered = one(objects(FAKE, "--values", file), "ConfigMap", "topology")["data"]
    read = read_topology(rendered["topology.yml"])

    assert (read.label_key, read.mig_strategy) == ("example.com/pool", "single")
    assert {
        name: [(gpu.product, gpu.memory_mib) for gpu in read.pools[name].gpus]
        for name in ("small", "medium", "large")
    } == dict.fromkeys(("small", "medium", "large"), [("NVIDIA-H200", 71680)] * 4)


@pytest.mark.contract("S1-83")
def test_prometheus_address_is_a_value_with_the_seed_default() -> None:
    assert config_of(objects(FAKE)).node.prometheus_url == ("http://prometheus-operated.runai:9090")
    there = objects(FAKE, *settings("prometheus.url=http://localhost:9090"))
    assert config_of(there).node.prometheus_url == "http://localhost:9090"


@pytest.mark.contract("S1-B32")
def test_kubelet_and_kwok_nodes_refresh_readings_at_the_same_interval() -> None:
    """The agent exports those of its node, the controller those of all KWOK nodes."""
    found = objects(FAKE, *settings("statusExporter.topologyMaxExportInterval=3s"))
    for program in (
        containers(one(found, "DaemonSet"))[AGENT],
        containers(one(found, "Deployment", "fake-gpu-operator"))["controller"],
    ):
        environment = {each["name"]: each.get("value", "") for each in program["env"]}
        assert with_environment(config_of(found), environment).node.export_interval_s == 3.0


@pytest.mark.contract("S4-2", "S4-3")
def test_lab_plugin_config_is_given_as_in_its_chart(tmp_path: Path) -> None:
    """``--set-file config.map.config=gpu-config.yaml``, also with the release in kube-system."""
    sharing = {"renameByDefault": False, "resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
    content = {"version": "v1", "sharing": {"timeSlicing": sharing}}
    file = tmp_path / "gpu-config.yaml"
    file.write_text(yaml.safe_dump(content))
    found = objects(
        FAKE, "--set-file", f"config.map.config={file}", release="nvdp", namespace="kube-system"
    )
    files = one(found, "ConfigMap", "device-plugin-config")
    config = config_of(found).device_plugin_config
    assert (files["metadata"]["name"], files["metadata"]["namespace"]) == (
        config.name,
        config.namespace,
    )
    read = read_plugin_config(files["data"][chosen(files["data"], "")])
    assert [one.replicas for one in read.sharing.resources] == [4]
    assert len(ids(found)) == len({*ids(found)}), "no object is there twice"


def ids(found: list[Json]) -> list[tuple[Any, ...]]:
    """Kind, namespace and name."""
    return [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in found
    ]


def test_one_of_several_plugin_configs_is_the_default() -> None:
    words = settings("config.map.a=version: v1", "config.map.b=version: v1 #b", "config.default=b")
    data = one(objects(FAKE, *words), "ConfigMap", "device-plugin-config")["data"]
    assert data[chosen(data, "")].strip() == data["b"].strip() == "version: v1 #b"
    assert chosen(data, "a") == "a"


def test_external_plugin_config_map_replaces_ours() -> None:
    found = objects(FAKE, *settings("config.name=mine", "config.map.a=version: v1"))
    config = config_of(found).device_plugin_config
    assert (config.name, config.namespace) == ("mine", "gpu-operator")
    assert "device-plugin-config" not in {name for _, _, name in ids(found)}


def test_openshift_gets_an_scc_and_assigns_the_controller_user() -> None:
    found = objects(FAKE, *preset("openshift", FAKE))
    binding = one(found, "ClusterRoleBinding", "fake-device-plugin-scc")
    assert binding["roleRef"]["name"] == "system:openshift:scc:privileged"
    (subject,) = binding["subjects"]
    assert subject["name"] == "nvidia-device-plugin"
    pod = one(found, "Deployment", "fake-gpu-operator")["spec"]["template"]["spec"]
    assert pod["securityContext"].keys() == {"runAsNonRoot", "seccompProfile"}


@pytest.mark.parametrize(
    ("sets", "gpus"),
    [
        pytest.param((), 2, id="the-seeds"),
        pytest.param(("topology.nodePools.other.gpuCount=1",), 2, id="beside-another"),
        pytest.param(
            (
                "topology.nodePools.default.gpus[0].type=t4,topology.nodePools.default.gpus[0].count=3",
            ),
            3,
            id="in-another-shape",
        ),
    ],
)
@pytest.mark.contract("S1-19", "S1-B2")
def test_default_pool_is_replaced_and_never_merged(sets: tuple[str, ...], gpus: int) -> None:
    data = one(objects(FAKE, *settings(*sets)), "ConfigMap", "topology")["data"]
    assert len(read_topology(data["topology.yml"]).pools["default"].gpus) == gpus
