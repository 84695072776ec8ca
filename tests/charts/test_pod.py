"""The pod: the token's container, its rights, and a configuration that the scheduler accepts."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from scheduler import config as configuration
from scheduler.controllers.certificates.issuer import read_authority
from tests.charts.rendering import (
    CHECK,
    FAKE,
    SCHEDULER,
    Json,
    containers,
    kinds,
    objects,
    of,
    one,
    preset,
    settings,
    variants,
)
from webhook.__main__ import parse as parse_webhook

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
OPENSHIFT = FAKE / "ci" / "openshift-values.yaml"
SCHEDULERS = [path for path in variants() if of(path) == SCHEDULER]


def config_of(found: list[Json]) -> configuration.Config:
    """The scheduler's configuration, read by the scheduler's own code."""
    maps = [each for each in found if each["kind"] == "ConfigMap" and "config.yaml" in each["data"]]
    return configuration.parse(maps[0]["data"]["config.yaml"].encode())


@pytest.mark.parametrize("values", SCHEDULERS, ids=lambda path: path.stem)
def test_the_scheduler_accepts_what_each_variant_configures(values: Path) -> None:
    found = objects(SCHEDULER, "--values", values)
    config = config_of(found)
    webhook = containers(one(found, "Deployment")).get("webhook")
    assert config.expects_webhook == (webhook is not None)
    if webhook is not None:
        arguments = parse_webhook(webhook["args"], {})
        assert str(arguments.socket) == config.webhook.socket
        assert str(arguments.cert_dir) == config.forward.cert_dir


@pytest.mark.contract("S2-33")
@pytest.mark.parametrize("values", variants(), ids=lambda path: f"{of(path).name}-{path.stem}")
def test_every_container_meets_the_restricted_pod_security_standard(values: Path) -> None:
    """But the node's agent: root, since the kubelet's sockets are root's, and no more than that."""
    for each in objects(of(values), "--values", values):
        spec = each["spec"] if each["kind"] == "Pod" else each.get("spec", {}).get("template", {})
        spec = spec.get("spec", spec)
        for container in spec.get("containers", []):
            context = container["securityContext"]
            if context.get("privileged"):
                assert (each["kind"], values) == ("DaemonSet", OPENSHIFT)
                continue
            assert RESTRICTED.items() <= context.items()
            assert context["capabilities"]["drop"] == ["ALL"]
            assert spec["securityContext"].get("runAsNonRoot") is (
                None if each["kind"] == "DaemonSet" else True
            )
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            # Only the fake operator's programs ask the API server with the usual token.
            asks = of(values) == FAKE and each["metadata"]["name"] != "gpu-operator"
            assert spec["automountServiceAccountToken"] is asks


@pytest.mark.parametrize("mode", ["self", "certManager", "existingSecret"])
def test_the_token_is_in_the_schedulers_container_alone(mode: str) -> None:
    words = settings(f"webhook.certificates.mode={mode}", "webhook.caBundle=QQ==")
    found = objects(SCHEDULER, *words)
    having = [
        name
        for name, container in containers(one(found, "Deployment")).items()
        if any(mount["mountPath"] == TOKEN for mount in container["volumeMounts"])
    ]
    assert having == ["scheduler"]
    assert one(found, "ServiceAccount")["automountServiceAccountToken"] is False


@pytest.mark.contract("S2-21", "S3-5", "S3-8")
def test_one_deployment_with_both_containers_or_the_scheduler_alone() -> None:
    both = one(objects(), "Deployment")
    assert list(containers(both)) == ["scheduler", "webhook"]
    assert not both["spec"]["template"]["spec"].get("initContainers")
    alone = objects(SCHEDULER, *preset("no-webhook"))
    assert list(containers(one(alone, "Deployment"))) == ["scheduler"]
    assert "Secret" not in kinds(alone)


@pytest.mark.contract("S2-12")
def test_the_schedulers_name_reaches_everything_that_asks_for_it() -> None:
    found = objects(SCHEDULER, *settings("scheduler.name=mine"))
    assert config_of(found).scheduler_name == "mine"
    inside = containers(one(found, "Deployment"))
    assert "--scheduler-name=mine" in inside["webhook"]["args"]
    assert {"name": "SCHEDULER_NAME", "value": "mine"} in inside["scheduler"]["env"]
    for entry in one(found, "MutatingWebhookConfiguration")["webhooks"]:
        assert entry["matchConditions"][0]["expression"].endswith('= "mine"')


@pytest.mark.contract("S2-B5")
def test_the_default_installation_makes_its_certificate_by_itself() -> None:
    found = objects()
    kept = config_of(found).certificates
    secret = one(found, "Secret", "gpu-scheduler-webhook-tls")
    assert kept.secret == secret["metadata"]["name"]
    assert "data" not in secret, "helm must not own what the scheduler writes"
    role = one(found, "Role", "gpu-scheduler-certificates")
    assert [(rule["resourceNames"], rule["verbs"]) for rule in role["rules"]] == [
        ([kept.secret], ["get", "patch"]),
        ([kept.authority], ["get"]),
    ]
    authority = one(found, "Secret", kept.authority)["data"]
    read_authority(*(base64.b64decode(authority[name]) for name in ("ca.crt", "ca.key")))
    entries = one(found, "MutatingWebhookConfiguration")["webhooks"]
    assert {entry["clientConfig"]["caBundle"] for entry in entries} == {authority["ca.crt"]}
    volumes = one(found, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert all("secret" not in volume for volume in volumes), "nothing that a start waits for"


@pytest.mark.parametrize("variant", ["default", "cert-manager", "ca-bundle", "gpu-webhook"])
def test_no_account_has_a_right_on_a_registration(variant: str) -> None:
    """An account that may patch one could read every written Secret and become cluster-admin."""
    found = objects(SCHEDULER, *([] if variant == "default" else preset(variant)))
    rules = [rule for each in found for rule in each.get("rules") or () if "verbs" in rule]
    assert rules
    assert not [rule for rule in rules if "admissionregistration.k8s.io" in rule["apiGroups"]]


@pytest.mark.parametrize("variant", ["default", "cert-manager", "ca-bundle"])
def test_the_container_on_the_network_writes_nothing_but_the_socket(variant: str) -> None:
    """The replicas' token and the keys are in a volume that only the scheduler can write."""
    found = objects(SCHEDULER, *([] if variant == "default" else preset(variant)))
    inside = containers(one(found, "Deployment"))
    written = {
        name: {m["mountPath"] for m in inside[name]["volumeMounts"] if not m.get("readOnly")}
        for name in inside
    }
    config = config_of(found)
    assert written == {
        "scheduler": {"/run/gpu-scheduler", config.certificates.directory},
        "webhook": {"/run/gpu-scheduler"},
    }
    places = (config.forward.token_file, config.certificates.directory)
    assert not any(place.startswith("/run/gpu-scheduler") for place in places)


def test_cert_manager_certificate_has_service_names_and_sets_the_ca() -> None:
    found = objects(SCHEDULER, *preset("cert-manager"))
    certificate = one(found, "Certificate")
    service = one(found, "MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"]["service"]
    assert f"{service['name']}.{service['namespace']}.svc" in certificate["spec"]["dnsNames"]
    annotations = one(found, "MutatingWebhookConfiguration")["metadata"]["annotations"]
    assert annotations == {
        "cert-manager.io/inject-ca-from": "gpu-scheduler-system/gpu-scheduler-webhook"
    }
    assert one(found, "Issuer")["metadata"]["name"] == certificate["spec"]["issuerRef"]["name"]
    named = settings("webhook.certificates.issuerRef.name=corp")
    assert "Issuer" not in kinds(objects(SCHEDULER, *preset("cert-manager"), *named))


@pytest.mark.contract("S2-17")
def test_seed_flow_mounts_the_script_secret_and_registers_its_bundle() -> None:
    found = objects(SCHEDULER, *settings("webhook.enabled=true", "webhook.caBundle=QQ=="))
    volumes = one(found, "Deployment")["spec"]["template"]["spec"]["volumes"]
    secrets = [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
    assert secrets == ["gpu-scheduler-webhook-tls"]
    entries = one(found, "MutatingWebhookConfiguration")["webhooks"]
    assert {entry["clientConfig"]["caBundle"] for entry in entries} == {"QQ=="}
    config = config_of(found)
    assert config.certificates.names == (), "only the replicas' token is ours to make"
    assert one(found, "Secret")["metadata"]["name"] == "gpu-scheduler-replicas"
    cluster_roles = [each["metadata"]["name"] for each in found if each["kind"] == "ClusterRole"]
    assert sorted(cluster_roles) == [
        "gpu-scheduler",
        "gpu-scheduler-migrations",
        "gpu-scheduler-preemption",
    ]


def test_openshift_chooses_users_itself() -> None:
    pod = one(objects(SCHEDULER, *preset("openshift")), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"].keys() == {"runAsNonRoot", "seccompProfile"}


def test_only_a_changed_configuration_restarts_the_pods() -> None:
    def checksum(*sets: str) -> str:
        found = one(objects(SCHEDULER, *settings(*sets)), "Deployment")
        annotations = found["spec"]["template"]["metadata"]["annotations"]
        return str(annotations["checksum/config"])

    assert checksum() == checksum("replicaCount=3") != checksum("config.placement=spread")


def test_disruption_budget_exists_only_where_a_drain_can_proceed() -> None:
    assert "PodDisruptionBudget" in kinds(objects())
    assert "PodDisruptionBudget" not in kinds(objects(SCHEDULER, *settings("replicaCount=1")))
    assert "PodDisruptionBudget" not in kinds(objects(CHECK))


def test_leader_port_is_open_to_our_pods_only() -> None:
    found = objects()
    rules = one(found, "NetworkPolicy")["spec"]["ingress"]
    open_to_all = {port["port"] for rule in rules if "from" not in rule for port in rule["ports"]}
    assert open_to_all == {"health", "webhook"}
    (door,) = [rule for rule in rules if "from" in rule]
    selector = one(found, "Deployment")["spec"]["selector"]["matchLabels"]
    assert door["from"] == [{"podSelector": {"matchLabels": selector}}]


@pytest.mark.contract("S4-5")
def test_lab_priority_classes_keep_their_values_and_none_is_default() -> None:
    found = objects(SCHEDULER, *settings("priorityClasses.enabled=true"))
    classes = [each for each in found if each["kind"] == "PriorityClass"]
    assert {each["metadata"]["name"]: each["value"] for each in classes} == {
        "gpu-critical": 1_000_000,
        "gpu-high": 100_000,
        "gpu-normal": 10_000,
        "gpu-low": 1_000,
    }
    assert not any(each["globalDefault"] for each in classes)
    assert [each.get("preemptionPolicy") for each in classes] == [None, None, None, "Never"]


def test_crds_outlive_the_release_by_default() -> None:
    def kept(*sets: str) -> set[str | None]:
        found = objects(SCHEDULER, *settings(*sets))
        crds = [each for each in found if each["kind"] == "CustomResourceDefinition"]
        assert len(crds) == 2
        return {each["metadata"]["annotations"].get("helm.sh/resource-policy") for each in crds}

    assert kept() == {"keep"}
    assert kept("crd.keep=false") == {None}
