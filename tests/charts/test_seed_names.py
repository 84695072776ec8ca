"""What the seeds' users write into their values and scripts still means what it meant."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.charts.rendering import (
    CHECK,
    FAKE,
    SCHEDULER,
    containers,
    kinds,
    objects,
    one,
    preset,
    settings,
)
from tools.release import present

#: Values of seed 002 whose names and defaults stay.
SEED_002: dict[str, Any] = {
    "scheduler.name": "gpu-scheduler",
    "webhook.enabled": True,
    "webhook.caBundle": "",
    "serviceAccount.create": True,
    "serviceAccount.name": "",
    "serviceAccount.annotations": {},
    "podSecurityContext.runAsNonRoot": True,
    "podSecurityContext.runAsUser": 1000,
    "podSecurityContext.fsGroup": 1000,
    "securityContext.allowPrivilegeEscalation": False,
    "securityContext.readOnlyRootFilesystem": True,
    "securityContext.capabilities": {"drop": ["ALL"]},
    "service.type": "ClusterIP",
    "service.port": 8080,
    "service.targetPort": 8080,
    "resources.requests": {"cpu": "100m", "memory": "128Mi"},
    "resources.limits": {"cpu": "500m", "memory": "512Mi"},
    "livenessProbe.httpGet.path": "/health",
    "livenessProbe.initialDelaySeconds": 10,
    "livenessProbe.periodSeconds": 30,
    "readinessProbe.httpGet.path": "/ready",
    "readinessProbe.initialDelaySeconds": 5,
    "readinessProbe.periodSeconds": 10,
    "env": [],
    "volumes": [],
    "volumeMounts": [],
    "podAnnotations": {},
    "priorityClassName": "",
    "autoscaling.enabled": False,
    "autoscaling.minReplicas": 1,
    "autoscaling.maxReplicas": 3,
    "autoscaling.targetCPUUtilizationPercentage": 80,
    "autoscaling.targetMemoryUtilizationPercentage": 80,
}
SEED_CHECK: dict[str, Any] = {
    "gpuScheduling.enabled": True,
    "gpuScheduling.schedulerName": "gpu-scheduler",
    "testService.logInterval": 10,
    "testService.env": [],
    "podSecurityContext.runAsUser": 65534,
    "resources.requests": {"cpu": "50m", "memory": "64Mi"},
    "resources.limits": {"cpu": "100m", "memory": "128Mi"},
    "commonLabels": {},
    "commonAnnotations": {},
}
MAP = "0=node1:0,1\n1=node2:2\n2=node3:0,1,2\n3=node4:3\n4=node4:3\n"


def at(tree: Any, name: str) -> Any:
    """A value by its dotted name."""
    for key in name.split("."):
        tree = tree[key]
    return tree


@pytest.mark.contract("S2-20")
def test_the_schedulers_values_have_the_seeds_names_and_defaults() -> None:
    values = yaml.safe_load((SCHEDULER / "values.yaml").read_text(encoding="utf-8"))
    assert {name: at(values, name) for name in SEED_002} == SEED_002
    tolerated = {each["key"] for each in values["tolerations"]}
    assert tolerated == {
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
    }


@pytest.mark.contract("S2-20")
def test_default_values_need_no_node_label_the_kind_preset_does() -> None:
    pod = one(objects(), "Deployment")["spec"]["template"]["spec"]
    assert "nodeSelector" not in pod
    local = one(objects(SCHEDULER, *preset("kind")), "Deployment")["spec"]["template"]["spec"]
    assert local["nodeSelector"] == {"node-role.kubernetes.io/control-plane": ""}


@pytest.mark.contract("S2-21", "S2-16", "S4-30")
def test_the_schedulers_objects_have_the_seeds_names_ports_and_labels() -> None:
    found = objects()
    health = one(found, "Service", "gpu-scheduler")["spec"]["ports"][0]
    assert (health["port"], health["targetPort"]) == (8080, "health")
    webhook = one(found, "Service", "gpu-scheduler-webhook")["spec"]["ports"][0]
    assert (webhook["port"], webhook["targetPort"]) == (443, "webhook")
    inside = containers(one(found, "Deployment", "gpu-scheduler"))
    assert inside["webhook"]["ports"][0]["containerPort"] == 8443
    labels = one(found, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == "gpu-scheduler"
    assert {"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version"} <= set(
        labels
    )
    registration = one(found, "MutatingWebhookConfiguration", "gpu-scheduler-webhook")
    assert registration["webhooks"][0]["name"] == "gpu-env-injector.gpu-scheduler.io"


@pytest.mark.contract("S2-23")
def test_images_have_the_seeds_names_and_no_registry() -> None:
    images = {
        container["image"]
        for found in (objects(), objects(CHECK))
        for each in found
        if each["kind"] in ("Deployment", "StatefulSet")
        for container in containers(each).values()
    }
    assert images == {f"gpu-scheduler:{present()}", f"gpu-scheduler-check:{present()}"}


@pytest.mark.contract("S2-22", "S2-1")
def test_the_check_chart_renders_the_map_and_a_stateful_set_of_five() -> None:
    values = yaml.safe_load((CHECK / "values.yaml").read_text(encoding="utf-8"))
    assert {name: at(values, name) for name in SEED_CHECK} == SEED_CHECK
    found = objects(CHECK, *preset("map", CHECK))
    workload = one(found, "StatefulSet", "gpu-test-gpu-scheduler-check")
    assert workload["spec"]["replicas"] == 5
    template = workload["spec"]["template"]
    assert template["metadata"]["annotations"] == {"gpu-scheduling-map": MAP}
    assert template["spec"]["schedulerName"] == "gpu-scheduler"
    assert one(found, "Service")["metadata"]["name"] == workload["spec"]["serviceName"]
    assert one(found, "Service")["spec"]["clusterIP"] == "None"
    env = {each["name"]: each for each in containers(workload)["gpu-scheduler-check"]["env"]}
    assert env["LOG_INTERVAL"]["value"] == "10"
    paths = {
        name: env[name]["valueFrom"]["fieldRef"]["fieldPath"]
        for name in ("NODE_NAME", "POD_NAME", "POD_NAMESPACE")
    }
    assert paths == {
        "NODE_NAME": "spec.nodeName",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
    }


@pytest.mark.contract("S2-B16")
def test_the_check_charts_disruption_budget_is_a_real_one() -> None:
    found = objects(CHECK, *settings("podDisruptionBudget.enabled=true"))
    budget = one(found, "PodDisruptionBudget")["spec"]
    workload = one(found, "StatefulSet")["spec"]
    assert budget["selector"] == workload["selector"]
    assert budget["minAvailable"] == 1


@pytest.mark.contract("S0-18", "S2-B18")
def test_the_seed_000_preset_has_that_seeds_names() -> None:
    place = {"release": "gpu-webhook", "namespace": "gpu-webhook"}
    found = objects(SCHEDULER, *preset("gpu-webhook"), **place)
    deployment = one(found, "Deployment", "gpu-webhook")
    assert deployment["spec"]["template"]["metadata"]["labels"]["app"] == "gpu-webhook"
    assert {each["image"] for each in containers(deployment).values()} == {
        f"gpu-webhook:{present()}"
    }
    assert {each["imagePullPolicy"] for each in containers(deployment).values()} == {"Never"}
    assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 65532
    service = one(found, "Service", "gpu-webhook")["spec"]["ports"][0]
    assert (service["port"], service["targetPort"]) == (443, "webhook")
    entries = one(found, "MutatingWebhookConfiguration", "gpu-allocation-webhook")["webhooks"]
    fallback = entries[1]
    assert fallback["name"] == "gpu-allocation.k8s.io"
    assert fallback["failurePolicy"] == "Ignore"
    keys = [each["key"] for each in fallback["namespaceSelector"]["matchExpressions"]]
    assert keys == ["kubernetes.io/metadata.name", "gpu-webhook"], "scope all: no opt-in label"
    assert one(found, "Secret", "gpu-webhook-certs")
    one(found, "ServiceAccount", "gpu-webhook")
    one(found, "ClusterRole", "gpu-webhook")


@pytest.mark.contract("S0-30")
def test_seed_selectors_match_both_programs() -> None:
    """``-l app=gpu-webhook``, and ``-l app.kubernetes.io/name=fake-gpu-operator``."""
    place = {"release": "gpu-webhook", "namespace": "gpu-webhook"}
    webhook = one(objects(SCHEDULER, *preset("gpu-webhook"), **place), "Deployment")
    template = webhook["spec"]["template"]["metadata"]
    assert template["labels"]["app"] == "gpu-webhook"
    assert template["annotations"]["kubectl.kubernetes.io/default-container"] == "webhook"
    service = one(objects(SCHEDULER, *preset("gpu-webhook"), **place), "Service", "gpu-webhook")
    assert service["metadata"]["namespace"] == "gpu-webhook", "kubectl get endpoints -n gpu-webhook"
    assert service["spec"]["selector"].items() <= template["labels"].items()
    operator = one(objects(FAKE), "Deployment", "fake-gpu-operator")
    labels = operator["spec"]["template"]["metadata"]["labels"]
    assert operator["metadata"]["namespace"] == "gpu-operator"
    assert labels["app.kubernetes.io/name"] == "fake-gpu-operator"


@pytest.mark.contract("S2-B17")
def test_maps_are_allowed_by_default_only_in_labelled_namespaces() -> None:
    """And the API server refuses forged annotations."""
    config = yaml.safe_load(one(objects(), "ConfigMap")["data"]["config.yaml"])
    assert config.get("maps", {}).get("allow", "labelled") == "labelled"
    assert "ValidatingAdmissionPolicy" in kinds(objects())
