"""The GitOps files: kinds and charts that exist, and no fight over what the product writes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.charts.rendering import of, text, variants
from tools.charts.copies import ROOT

SETS = sorted((ROOT / "argocd").glob("*-applicationset.yaml"))


def load(name: str) -> Any:
    """One file of argocd/."""
    return yaml.safe_load((ROOT / "argocd" / name).read_text(encoding="utf-8"))


def elements(node: Any) -> list[dict[str, str]]:
    """The elements of every list generator below."""
    if isinstance(node, list):
        return [found for each in node for found in elements(each)]
    if not isinstance(node, dict):
        return []
    if "elements" in node:
        found: list[dict[str, str]] = node["elements"]
        return found
    return [found for each in node.values() for found in elements(each)]


def expand(template: Any, element: dict[str, str]) -> Any:
    """A template with an element's values; only plain fields are used in ours."""
    told = yaml.safe_dump(template)
    return yaml.safe_load(re.sub(r"\{\{ \.(\w+) \}\}", lambda match: element[match[1]], told))


@pytest.mark.contract("S2-26", "S2-B15")
def test_project_allows_exactly_the_kinds_in_the_charts() -> None:
    """A kind that does not exist would be one too many, a forgotten one one too few."""
    project = load("gpu-scheduler-project.yaml")["spec"]
    rendered = set()
    for values in variants():
        for each in yaml.safe_load_all(text(of(values), "--values", values)):
            if each:
                group = each["apiVersion"].rpartition("/")[0]
                rendered.add((group, each["kind"]))
    allowed = {
        (each["group"], each["kind"])
        for key in ("clusterResourceWhitelist", "namespaceResourceWhitelist")
        for each in project[key]
    }
    assert allowed == rendered | {("", "Namespace")}


@pytest.mark.contract("S2-26")
def test_the_project_has_the_seeds_roles_groups_and_a_window() -> None:
    project = load("gpu-scheduler-project.yaml")
    assert project["metadata"]["name"] == "gpu-scheduler"
    roles = {role["name"]: role["groups"] for role in project["spec"]["roles"]}
    assert roles == {
        "gpu-scheduler-admin": ["gpu-scheduler-admins"],
        "gpu-scheduler-readonly": ["gpu-scheduler-users"],
    }
    for role in project["spec"]["roles"]:
        for policy in role["policies"]:
            assert policy.startswith(f"p, proj:gpu-scheduler:{role['name']}, ")
    (window,) = project["spec"]["syncWindows"]
    assert window["kind"] == "allow"


@pytest.mark.contract("S2-26")
def test_the_complete_set_makes_the_seeds_applications_in_waves() -> None:
    whole = load("gpu-scheduler-complete-applicationset.yaml")
    assert whole["metadata"]["name"] == "gpu-scheduler-complete"
    made = [expand(whole["spec"]["template"], each) for each in elements(whole["spec"])]
    seen = [
        (
            app["metadata"]["name"],
            app["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"],
            app["spec"]["source"]["path"],
            app["spec"]["source"]["helm"]["releaseName"],
            app["spec"]["destination"]["namespace"],
        )
        for app in made
    ]
    assert seen == [
        (
            "local-cluster-gpu-scheduler",
            "1",
            "charts/gpu-scheduler",
            "gpu-scheduler",
            "gpu-scheduler-system",
        ),
        (
            "local-cluster-gpu-test-service",
            "2",
            "charts/gpu-scheduler-check",
            "gpu-test-service",
            "gpu-scheduler-tests",
        ),
    ]
    retry = made[0]["spec"]["syncPolicy"]["retry"]
    assert retry == {"limit": 5, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}}
    labels = made[1]["spec"]["syncPolicy"]["managedNamespaceMetadata"]["labels"]
    assert labels == {"gpu-scheduler.io/maps": "allowed"}


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
@pytest.mark.contract("S2-26", "S2-B15")
def test_application_set_names_existing_charts_and_ignores_our_writes(path: Any) -> None:
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
    assert spec["goTemplate"] is True
    assert spec["goTemplateOptions"] == ["missingkey=error"]
    for element in elements(spec):
        assert (ROOT / element["path"] / "Chart.yaml").is_file()
    app = spec["template"]["spec"]
    assert app["project"] == "gpu-scheduler"
    assert app["syncPolicy"]["automated"] == {"prune": True, "selfHeal": True}
    assert {"CreateNamespace=true", "ServerSideApply=true", "RespectIgnoreDifferences=true"} == set(
        app["syncPolicy"]["syncOptions"]
    )
    ignored = {each["kind"] for each in app["ignoreDifferences"]}
    written = {"Deployment", "Pod", "MutatingWebhookConfiguration", "Secret", "Lease"}
    assert ignored == {*written, "APIService"}


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_application_names_are_equal_for_every_set_and_stage(path: Any) -> None:
    """What has another name is another Application: it goes, and takes the product along."""
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
    cluster = {"nameNormalized": "local-cluster", "server": "https://kubernetes.default.svc"}
    named = {
        (element["component"], expand(spec["template"], cluster | element)["metadata"]["name"])
        for element in elements(spec)
    }
    assert ("scheduler", "local-cluster-gpu-scheduler") in named
    assert named <= {
        ("scheduler", "local-cluster-gpu-scheduler"),
        ("test-service", "local-cluster-gpu-test-service"),
    }


@pytest.mark.contract("S2-26", "S2-B15")
def test_the_cluster_secret_carries_the_labels_that_the_sets_look_for() -> None:
    secret = load("local-cluster-secret.yaml")
    labels = secret["metadata"]["labels"]
    assert secret["metadata"]["name"] == "local-cluster"
    assert labels["argocd.argoproj.io/secret-type"] == "cluster"
    (by_label, _) = load("gpu-scheduler-clusters-applicationset.yaml")["spec"]["generators"][0][
        "matrix"
    ]["generators"]
    assert by_label["clusters"]["selector"]["matchLabels"].items() <= labels.items()
    stages = [
        element["stage"]
        for element in elements(load("gpu-scheduler-stages-applicationset.yaml")["spec"])
    ]
    assert stages == ["dev", "stage", "prod"]
    assert labels["gpu-scheduler.io/stage"] in stages
