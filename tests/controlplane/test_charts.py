"""The charts on the real API server: every manifest is accepted, and a release lives its life.

A control plane of its own, because a release must own its objects and take them along in the end.
"""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode, _started
from tests.controlplane.release import NAMESPACE, SECRET, Release
from tests.controlplane.workloads import Watcher, annotation, cuda, node_of, pod
from tests.leftovers import (
    API_KINDS,
    everything,
    finalized_kinds,
    left_since,
    wait_until_gone,
)
from tools.charts import deploy
from tools.charts.copies import CHARTS, SCHEDULER
from tools.charts.helm import template
from tools.controlplane import ApiError, ControlPlane, ControlPlaneError, wait_until
from tools.controlplane.programs.versions import CONTROL_PLANE_KUBERNETES
from tools.product import ROOT

VARIANTS = sorted(CHARTS.glob("*/ci/*-values.yaml"))
#: Kinds of other people's operators, which this API server does not have.
FOREIGN = ("monitoring.coreos.com", "cert-manager.io", "argoproj.io")
OTHER_PROGRAMS = (*FOREIGN, "kind.x-k8s.io", "kwok.x-k8s.io")
#: The chart's notes about an image that only the nodes could have; and values that name another.
NO_REGISTRY = "names no registry. Unless it was loaded into the nodes"
FROM_REGISTRY = ("--set", "global.imageRegistry=registry.example.com")
MAPPED = {"gpu-scheduling-map": "0=worker-1:0,1"}


@pytest.fixture(scope="module")
def cp(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Nothing is installed here."""
    with _started(request, tmp_path_factory.mktemp("charts")) as plane:
        yield plane


def dry_run(cp: ControlPlane, objects: list[dict[str, Any]]) -> None:
    """Every object is accepted, with the strict validation of its fields."""
    known = [each for each in objects if not each["apiVersion"].startswith(FOREIGN)]
    cp.kubectl(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        input=yaml.safe_dump_all(known),
    )


def make_namespaces(cp: ControlPlane, *names: str) -> None:
    """A dry run creates none, and namespaced objects need theirs."""
    for name in names:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        cp.kubectl("apply", "-f", "-", input=yaml.safe_dump(body))


@pytest.mark.contract("S2-28")
def test_the_api_server_accepts_every_manifest_of_every_variant(cp: ControlPlane) -> None:
    """Those that variants have in common are sent once."""
    make_namespaces(cp, "dry-run", "runai-reservation")
    objects: dict[str, dict[str, Any]] = {}
    for values in VARIANTS:
        words: list[str | Path] = ["--values", values, "--kube-version", CONTROL_PLANE_KUBERNETES]
        text = template(values.parents[1], release="dry", namespace="dry-run", words=words)
        objects |= {str(each): each for each in yaml.safe_load_all(text) if each}
    assert len(objects) > len(VARIANTS) * 3
    dry_run(cp, list(objects.values()))


@pytest.mark.contract("S0-16")
def test_api_server_accepts_the_plain_manifests_in_numeric_order(
    cp: ControlPlane,
) -> None:
    make_namespaces(cp, deploy.NAMESPACE)
    for path in sorted(deploy.FOLDER.glob("0*.yaml")):
        dry_run(cp, [each for each in yaml.safe_load_all(applicable(path)) if each])


def applicable(path: Path) -> str:
    """A manifest of the folder, with an authority in it where one has to be."""
    return path.read_text(encoding="utf-8").replace(deploy.PLACEHOLDER, "QUFB")


@pytest.mark.contract("S0-17")
def test_deleting_the_two_folders_of_manifests_leaves_nothing_of_them(cp: ControlPlane) -> None:
    """As the seed's clean-up does, and an object is there for every document."""
    folders = [ROOT / "manifests/test-pods", deploy.FOLDER]
    paths = [path for folder in reversed(folders) for path in sorted(folder.glob("*.yaml"))]
    cp.wait_for_service_account("default")
    for path in paths:
        cp.kubectl("apply", "-f", "-", input=applicable(path))

    def there() -> list[str]:
        words = ("get", "--ignore-not-found", "-o", "name", "-f", "-")
        return cp.kubectl(*words, input="\n---\n".join(map(applicable, paths))).split()

    documents = [each for path in paths for each in yaml.safe_load_all(applicable(path)) if each]
    assert len(there()) == len(documents) > 10
    for folder in folders:
        cp.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", f"{folder}/")
    wait_until_gone(cp, there)


@pytest.mark.contract("S2-28")
@pytest.mark.parametrize("folder", ["cluster", "argocd", "manifests/test-pods"])
def test_api_server_accepts_manual_manifests(cp: ControlPlane, folder: str) -> None:
    """Files for other programs are left out by their kinds: kind's, KWOK's and ArgoCD's own."""
    objects = [
        each
        for path in sorted((ROOT / folder).glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if each and not each["apiVersion"].startswith(OTHER_PROGRAMS)
    ]
    assert objects, folder
    make_namespaces(cp, *namespaces_of(objects), "default")
    cp.wait_for_service_account("default")
    dry_run(cp, objects)


@pytest.mark.contract("S1-79")
def test_enforced_pod_security_admits_the_agent_with_the_seed_label(cp: ControlPlane) -> None:
    """``kubectl label ns gpu-operator pod-security.kubernetes.io/enforce=privileged``."""
    label, path = "pod-security.kubernetes.io/enforce", "/api/v1/namespaces/gpu-operator"
    make_namespaces(cp, "gpu-operator")
    cp.wait_for_service_account("gpu-operator")
    chart = CHARTS / "fake-gpu-operator"
    rendered = yaml.safe_load_all(template(chart, release="gpu-operator", namespace="gpu-operator"))
    (agent,) = [each for each in rendered if each and each["kind"] == "DaemonSet"]
    spec = agent["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    made = {"metadata": {"name": "agent"}, "spec": spec}

    cp.client.patch(path, {"metadata": {"labels": {label: "baseline"}}})
    with pytest.raises(ApiError, match='violates PodSecurity "baseline'):
        cp.client.create(f"{path}/pods?dryRun=All", made)
    cp.kubectl("label", "--overwrite", "ns", "gpu-operator", f"{label}=privileged")

    assert cp.client.create(f"{path}/pods?dryRun=All", made)["metadata"]["name"] == "agent"


def namespaces_of(objects: list[dict[str, Any]]) -> set[str]:
    """Where they would lie."""
    found = {each["metadata"].get("namespace", "default") for each in objects}
    return found - {"kube-system"}


@pytest.mark.kubernetes("1.36", "MutatingAdmissionPolicy is not v1 before")
def test_our_pods_tolerate_the_taint_of_nodes_being_partitioned(cp: ControlPlane) -> None:
    make_namespaces(cp, "partition")
    cp.wait_for_service_account("partition")
    words = ["--set", "nodePartition.enabled=true", "--show-only", "templates/nodepartition.yaml"]
    text = template(SCHEDULER, release="p", namespace="partition", words=words)
    path = "/api/v1/namespaces/partition/pods?dryRun=All"

    def tolerations(scheduler: str) -> list[Any]:
        made = cp.client.create(path, pod("one", scheduler=scheduler))
        found: list[Any] = made["spec"]["tolerations"]
        return [each for each in found if each["key"] == "nvidia.com/gpu"]

    try:
        cp.kubectl("apply", "-f", "-", input=text)
        wait_until(lambda: bool(tolerations("gpu-scheduler")), what="the policy to be in force")
        assert tolerations("gpu-scheduler") == [
            {
                "key": "nvidia.com/gpu",
                "operator": "Equal",
                "value": "gpu-scheduler",
                "effect": "NoSchedule",
            }
        ]
        assert tolerations("default-scheduler") == []
    finally:
        cp.kubectl("delete", "--ignore-not-found", "-f", "-", input=text)


@pytest.mark.contract("S2-B5", "S2-B14", "S2-29", "S0-14")
def test_release_lifecycle(cp: ControlPlane, kwok_node: MakeNode, tmp_path: Path) -> None:
    """Install, a mapped pod with its environment, a new certificate, upgrade, rollback, uninstall:
    the scheduler runs with the release's rights alone, and only the API kinds are left."""
    before = everything(cp) - API_KINDS
    kwok_node("worker-1", gpus=4)
    with Release(cp, tmp_path) as release:
        release.install("--set", "config.maps.allow=all")
        release.start()
        release.reach()
        first = release.bundles()
        assert len(first) == 1
        assert "" not in first
        _a_mapped_pod_runs(cp, "first-0")
        _rights_are_the_documented_ones(cp)
        _a_new_certificate_is_taken_over(cp, release)
        release.reach_no_more()
        trusted, secret = release.bundles(), cp.client.get(SECRET)["data"]
        assert NO_REGISTRY in release.helm("get", "notes", "gpu-scheduler")
        release.upgrade("--reuse-values", "--set", "config.placement=spread", *FROM_REGISTRY)
        assert "placement: spread" in release.helm("get", "manifest", "gpu-scheduler")
        assert NO_REGISTRY not in release.helm("get", "notes", "gpu-scheduler")
        release.helm("rollback", "gpu-scheduler", "1")
        assert release.bundles() == trusted == first, "an upgrade makes no other authority"
        assert cp.client.get(SECRET)["data"] == secret
        cp.client.delete("/api/v1/namespaces/default/pods/first-0")
    release.helm("uninstall", "gpu-scheduler", "--wait")
    wait_until(lambda: left_since(cp, before) == API_KINDS, what="only the API kinds to be left")


@pytest.mark.contract("S2-17", "S3-7", "S3-25")
def test_api_server_trusts_the_bundle_of_the_seed_certificate_script(
    cp: ControlPlane, tmp_path: Path
) -> None:
    """Script, Secret, release with the bundle that it printed; no scheduler runs."""
    make_namespaces(cp, NAMESPACE)
    cp.wait_for_service_account("default")
    with Release(cp, tmp_path) as release:
        bundle = certificates_by_script(release.certs)
        cp.kubectl("apply", "-f", str(release.certs / "webhook-tls-secret.yaml"))
        release.install("--set", f"webhook.enabled=true,webhook.caBundle={bundle}")
        try:
            assert release.bundles() == {bundle}
            mounted = cp.client.get(SECRET)["data"]["tls.crt"]
            assert base64.b64decode(mounted) == (release.certs / "tls.crt").read_bytes()
            release.start_webhook()
            release.reach()
            probe = pod("seed-0", annotations=MAPPED)
            path = "/api/v1/namespaces/default/pods?dryRun=All"
            wait_until(
                lambda: cuda(cp.client.create(path, probe)) == "0,1",
                what="the API server to call the webhook",
            )
        finally:
            release.helm("uninstall", "gpu-scheduler", "--wait")
    assert cp.client.get(SECRET), "a foreign Secret stays"
    cp.client.delete(SECRET)


@pytest.mark.contract("S3-5")
def test_without_the_webhook_maps_are_placed_and_an_event_names_it(
    cp: ControlPlane, kwok_node: MakeNode, namespace: str, tmp_path: Path
) -> None:
    """The seed's option A, with the rights that such a release has."""
    kwok_node("worker-1")
    here = Watcher(cp, namespace)
    with Release(cp, tmp_path) as release:
        release.install("--set", "webhook.enabled=false,config.maps.allow=all")
        try:
            release.start_scheduler()
            here.create(pod("option-0", annotations=MAPPED))
            (placed,) = here.wait_bound(1)
            told = {event["reason"] for event in wait_for_events(here, "option-0", 2)}
        finally:
            release.stop()
            release.helm("uninstall", "gpu-scheduler", "--wait")
    assert (node_of(placed), cuda(placed)) == ("worker-1", None)
    assert annotation(placed, well_known.DEVICES) == "gpu:0,1"
    assert told == {"Scheduled", "EnvironmentNotSet"}


def wait_for_events(here: Watcher, name: str, count: int) -> list[dict[str, Any]]:
    """The events of a pod, once there are so many."""
    wait_until(lambda: len(here.events(name)) >= count, what=f"{count} events of {name}")
    return here.events(name)


def test_helm_writes_nothing_to_the_home_directory(
    cp: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what it learned of an API server either, which it is asked for here."""
    release = Release(cp, tmp_path)
    release.helm("version")  # found before the home changes, which our own cache is in too
    monkeypatch.setenv("HOME", str(tmp_path))
    release.install("--dry-run=server")
    assert list(tmp_path.iterdir()) == []


def certificates_by_script(folder: Path) -> str:
    """The seed's script, for ``localhost`` too, where the process stands for the Service."""
    environment = {"PATH": os.environ["PATH"], "CERT_DIR": str(folder), "ADDRESSES": "localhost"}
    script = ROOT / "generate-webhook-certs.sh"
    return subprocess.run(
        [script], env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_uninstall_without_kept_crds_leaves_nothing(cp: ControlPlane, tmp_path: Path) -> None:
    before = {name for name in everything(cp) if "gpu-scheduler.io" not in name}
    with Release(cp, tmp_path) as release:
        release.install("--set", "crd.keep=false", "--take-ownership")
        with finalized_kinds(cp):
            release.helm("uninstall", "gpu-scheduler", "--wait")

    wait_until_gone(cp, lambda: left_since(cp, before))


def _a_mapped_pod_runs(cp: ControlPlane, name: str) -> None:
    """It is placed by its map and got its environment at admission."""
    path = f"/api/v1/namespaces/default/pods/{name}"

    def is_called() -> bool:
        probe = pod(name, annotations=MAPPED)
        made = cp.client.create("/api/v1/namespaces/default/pods?dryRun=All", probe)
        return any(
            entry["name"] == "CUDA_VISIBLE_DEVICES"
            for entry in made["spec"]["containers"][0].get("env", [])
        )

    cp.wait_for_service_account("default")
    wait_until(is_called, what="the API server to call the webhook")
    cp.client.create("/api/v1/namespaces/default/pods", pod(name, annotations=MAPPED))
    cp.client.wait_for(path, lambda seen: bool(seen["spec"].get("nodeName")), what="its node")
    seen = cp.client.get(path)
    assert seen["spec"]["nodeName"] == "worker-1"
    assert seen["spec"]["containers"][0]["env"][0]["value"] == "0,1"


def _rights_are_the_documented_ones(cp: ControlPlane) -> None:
    """What the troubleshooting page asks, and what must not be: no right on any registration."""
    user = f"--as=system:serviceaccount:{NAMESPACE}:gpu-scheduler"
    assert cp.kubectl("auth", "can-i", "create", "bindings", user).strip() == "yes"
    for words in (
        ("list", "secrets"),
        ("get", "secret/other"),
        ("create", "pods"),
        ("patch", "secret/gpu-scheduler-webhook-ca"),
        ("get", "mutatingwebhookconfiguration/gpu-scheduler-webhook"),
        ("patch", "mutatingwebhookconfiguration/gpu-scheduler-webhook"),
    ):
        with pytest.raises(ControlPlaneError):
            cp.kubectl("auth", "can-i", *words, "-n", NAMESPACE, user)


def _a_new_certificate_is_taken_over(cp: ControlPlane, release: Release) -> None:
    """The pair is lost: a replica that starts makes the next one of the same authority."""
    trusted = release.bundles()
    cp.client.patch(SECRET, {"data": {"tls.crt": None, "tls.key": None}})
    release.stop_scheduler()
    release.start_scheduler()
    wait_until(
        lambda: "certificate loaded" in release.log("webhook"),
        what="the webhook to serve the new certificate",
    )
    probe = pod("second-0", annotations=MAPPED)
    wait_until(
        lambda: (
            cuda(cp.client.create("/api/v1/namespaces/default/pods?dryRun=All", probe)) == "0,1"
        ),
        what="the API server to trust the new certificate",
    )
    assert release.bundles() == trusted, "the authority is made once"
