"""Every source of the webhook's certificate: the API server trusts it, and helm's test of the
release passes, asking both Services from a pod.

There is no cluster DNS here, and no cert-manager: a policy gives the test's pod the names of the
Services, and a function below does for the chart's Certificate what cert-manager documents.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.containers import Json, shell_pod
from tests.e2e.delivered import NAME, NAMESPACE, REGISTRATION, SCHEDULER, ByHelm, Scheduler, given
from tests.leftovers import everything, finalized_kinds, wait_until_gone
from tools.charts.helm import helm
from tools.controlplane import ControlPlane, wait_until
from tools.product import ROOT
from tools.realnode import RealNode

READY_S: Final = 180.0
CERT_MANAGER: Final = "cert-manager.io"
CERTIFICATES: Final = f"/apis/{CERT_MANAGER}/v1/namespaces/{NAMESPACE}/certificates"
ALIASES: Final = "names-of-services"
TESTED: Final = {"app.kubernetes.io/name": f"{NAME}-test"}
Maker = Callable[[ControlPlane, Path], Json]


def by_itself(cp: ControlPlane, folder: Path) -> Json:
    """The default."""
    return {}


def by_script(cp: ControlPlane, folder: Path) -> Json:
    """As the seed's script tells its user."""
    return {"webhook": {"enabled": True, "caBundle": make_secret(cp, folder)}}


def by_cert_manager(cp: ControlPlane, folder: Path) -> Json:
    """Its kinds are there."""
    for kind in ("Issuer", "Certificate"):
        apply(cp, any_object(kind))
    return {"webhook": {"certificates": {"mode": "certManager"}}}


def make_secret(cp: ControlPlane, folder: Path, **told: str) -> str:
    """Run the script and apply the Secret that it has written; the bundle that it prints."""
    done = subprocess.run(
        [ROOT / "generate-webhook-certs.sh"],
        env={"PATH": os.environ["PATH"], "CERT_DIR": str(folder), **told},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    cp.kubectl("apply", "-f", str(folder / "webhook-tls-secret.yaml"))
    return done.stdout.strip()


def play_cert_manager(cp: ControlPlane, folder: Path) -> None:
    """Make the Secret that each Certificate names, and tell the registration that refers to it."""
    for wanted in cp.client.get(CERTIFICATES)["items"]:
        spec, name = wanted["spec"], wanted["metadata"]["name"]
        service = min(spec["dnsNames"], key=len)
        bundle = make_secret(cp, folder, SERVICE_NAME=service, SECRET_NAME=spec["secretName"])
        registration = cp.client.get(REGISTRATION)
        told = registration["metadata"]["annotations"][f"{CERT_MANAGER}/inject-ca-from"]
        assert told == f"{NAMESPACE}/{name}"
        patch = [
            {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": bundle}
            for number, _ in enumerate(registration["webhooks"])
        ]
        words = ("mutatingwebhookconfiguration", registration["metadata"]["name"], "--type=json")
        cp.kubectl("patch", *words, f"--patch={json.dumps(patch)}")


def any_object(kind: str) -> Json:
    """A kind of cert-manager's that takes every field."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{CERT_MANAGER}"},
        "spec": {
            "group": CERT_MANAGER,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


def apply(cp: ControlPlane, *objects: Json) -> None:
    """As a person would."""
    cp.kubectl(
        "apply",
        "-f",
        "-",
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]}),
    )
    for each in objects:
        if each["kind"] == "CustomResourceDefinition":
            name = f"crd/{each['metadata']['name']}"
            cp.kubectl("wait", "--for=condition=Established", name, "--timeout=60s")


def give_names(cp: ControlPlane) -> None:
    """From now on the release's test finds the Services by their names, as with a cluster DNS."""
    services = cp.client.get(f"/api/v1/namespaces/{NAMESPACE}/services")["items"]
    aliases = ", ".join(
        f'Object.spec.hostAliases.item{{ip: "{each["spec"]["clusterIP"]}", '
        f'hostnames: ["{each["metadata"]["name"]}.{NAMESPACE}.svc"]}}'
        for each in services
    )
    add = f'[JSONPatch{{op: "add", path: "/spec/hostAliases", value: [{aliases}]}}]'
    ((label, name),) = TESTED.items()
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [{**pods, "resources": ["pods"]}],
            "objectSelector": {"matchLabels": {label: name}},
        },
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": add}}],
    }
    meta = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": ALIASES}}
    apply(
        cp,
        {**meta, "kind": "MutatingAdmissionPolicy", "spec": spec},
        {**meta, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": ALIASES}},
    )
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
    wait_until(
        lambda: "hostAliases" in cp.client.create(path, shell_pod("any", labels=TESTED))["spec"],
        what="the Services' names to be given",
    )


@pytest.fixture
def delivery(cp: ControlPlane, with_image: RealNode, tmp_path: Path) -> Iterator[ByHelm]:
    """Our image is on the node and the release's namespace is there; nothing else is left."""
    assert with_image is not None
    apply(cp, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cp.wait_for_service_account(NAMESPACE)
    installed = ByHelm(cp, tmp_path)
    yield installed
    with finalized_kinds(cp):
        installed.withdraw(SCHEDULER)
    for kind in ("mutatingadmissionpolicy", "mutatingadmissionpolicybinding"):
        cp.kubectl("delete", kind, ALIASES, "--ignore-not-found")
    kinds = ("crd", *(f"{kind}.{CERT_MANAGER}" for kind in ("issuers", "certificates")))
    cp.kubectl("delete", *kinds, "--ignore-not-found", "--wait=false")
    left = ("get", *kinds, "--ignore-not-found", "-o", "name")
    wait_until_gone(cp, lambda: cp.kubectl(*left).split())
    secret = f"{NAME}-webhook-tls"
    cp.kubectl("delete", "secret", secret, "-n", NAMESPACE, "--ignore-not-found")
    wait_until(
        lambda: not any("/gpu-scheduler" in name for name in everything(cp)),
        what="everything to be gone",
    )


@pytest.mark.contract("S2-17")
@pytest.mark.parametrize("maker", [by_itself, by_script, by_cert_manager])
def test_helm_test_passes_with_every_certificate_source(
    cp: ControlPlane,
    node: RealNode,
    delivery: ByHelm,
    namespace: str,
    tmp_path: Path,
    maker: Maker,
) -> None:
    """The pod of the test sees both Services through the real node's network."""
    values: Json = {"crd": {"keep": False}, "config": {"maps": {"allow": "all"}}}
    delivery.deploy(SCHEDULER, values | maker(cp, tmp_path))
    if maker is by_cert_manager:
        play_cert_manager(cp, tmp_path)
    Scheduler(cp).wait()
    give_names(cp)

    told = helm(
        *("test", NAME, "--namespace", NAMESPACE, "--timeout=240s"), kubeconfig=cp.kubeconfig
    )

    assert "Phase:" in told
    assert "Succeeded" in told
    wait_until(
        lambda: given(cp, namespace, node.name) == [{"name": "CUDA_VISIBLE_DEVICES", "value": "1"}],
        what="the API server to trust the webhook",
        timeout_s=READY_S,
    )
