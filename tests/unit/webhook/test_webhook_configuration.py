"""What is registered with the API server, and what guards our annotations there."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.model import well_known
from webhook.handler import PATHS
from webhook.webhook_configuration import webhook_configuration

ROOT = Path(__file__).parents[3]
CA = b"-----BEGIN CERTIFICATE-----\n"


def made(**changes: Any) -> dict[str, Any]:
    """A configuration, reached by URL by default."""
    words: dict[str, Any] = {
        "ca_bundle": CA,
        "scheduler_name": "gpu-scheduler",
        "own_namespace": "gpu-scheduler-system",
        "url": "https://127.0.0.1:8443",
    }
    return webhook_configuration(**(words | changes))


@pytest.mark.contract("S0-18", "S2-16")
def test_the_seeds_names_are_kept() -> None:
    """One configuration with both seeds' entries; each path of the server is used."""
    configuration = made()

    assert configuration["metadata"]["name"] == "gpu-scheduler-webhook"
    assert [entry["name"] for entry in configuration["webhooks"]] == [
        "gpu-env-injector.gpu-scheduler.io",
        "gpu-allocation.k8s.io",
    ]
    urls = [entry["clientConfig"]["url"] for entry in configuration["webhooks"]]
    assert urls == [f"https://127.0.0.1:8443{path}" for path in PATHS]


@pytest.mark.contract("S2-16", "S2-B4", "S2-B18", "S3-6")
@pytest.mark.parametrize("scope", ["ours", "all"])
def test_no_entry_matches_system_or_own_pods(scope: str) -> None:
    """kube-system and our namespace by the label that every namespace has; Ignore; two seconds."""
    for entry in made(scope=scope)["webhooks"]:
        selector = entry["namespaceSelector"]["matchExpressions"]
        assert selector[:2] == [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["gpu-scheduler-system", "kube-system"],
            },
            {"key": "gpu-webhook", "operator": "NotIn", "values": ["disabled"]},
        ]
        assert entry["failurePolicy"] == "Ignore"
        assert entry["timeoutSeconds"] == 2
        assert entry["sideEffects"] == "NoneOnDryRun"
        assert entry["reinvocationPolicy"] == "IfNeeded"
        assert entry["admissionReviewVersions"] == ["v1"]
        assert entry["rules"] == [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ]


def test_scope_ours_degrades_others_only_where_the_namespace_asks() -> None:
    """Scope all is for seed 000's contract: pods of any scheduler."""
    label = {"key": well_known.FALLBACK_NAMESPACE, "operator": "In", "values": ["enabled"]}
    ours, others = (
        made(scope=scope)["webhooks"][1]["namespaceSelector"]["matchExpressions"]
        for scope in ("ours", "all")
    )

    assert label in ours
    assert [expression for expression in ours if expression != label] == others


def test_conditions_never_name_the_namespace_object() -> None:
    """The API server accepts that and then fails for every pod."""
    conditions = [c["expression"] for e in made()["webhooks"] for c in e["matchConditions"]]

    assert conditions
    assert not any("namespaceObject" in expression for expression in conditions)


@pytest.mark.contract("S2-B2", "S2-B18")
def test_name_address_policy_and_authority_come_from_the_caller() -> None:
    """A release of another name gets another Service."""
    configuration = made(
        url=None, service=("ns", "release-webhook"), failure_policy="Fail", scheduler_name="team-a"
    )

    for entry, path in zip(configuration["webhooks"], PATHS, strict=True):
        assert entry["clientConfig"] == {
            "caBundle": base64.b64encode(CA).decode(),
            "service": {"namespace": "ns", "name": "release-webhook", "path": path},
        }
        assert entry["failurePolicy"] == "Fail"
        assert '"team-a"' in entry["matchConditions"][0]["expression"]


def test_the_policy_guards_exactly_the_protected_keys() -> None:
    """The list in the manifest is the list in the code."""
    text = (ROOT / "cluster" / "admission-policies.yaml").read_text()
    policy = next(yaml.safe_load_all(text))
    variables = {item["name"]: item["expression"] for item in policy["spec"]["variables"]}

    def keys(name: str) -> list[str]:
        return re.findall(r"'([^']+)'", variables[name])

    assert keys("bindingKeys") == list(well_known.BINDING_KEYS)
    assert keys("admissionKeys") == list(well_known.ADMISSION_KEYS)
    assert f"key.startsWith('{well_known.CUDA_VISIBLE_DEVICES}.')" in variables["set"]
    assert f"key.startsWith('{well_known.CUDA_VISIBLE_DEVICES}.')" in variables["removed"]


def test_policies_do_not_iterate_over_many_annotations() -> None:
    """A walk costs the square of their number, and any tenant may create such a pod."""
    text = (ROOT / "cluster" / "admission-policies.yaml").read_text()
    walks = re.compile(r"variables\.(given|before)\s*\.(?:filter|exists|all|map)\(")
    for policy in yaml.safe_load_all(text):
        spec = policy["spec"]
        for item in [*spec.get("variables", ()), *spec.get("validations", ())]:
            bounds = re.findall(r"size\(variables\.(\w+)\) <?>?=? ?256", item["expression"])
            assert set(walks.findall(item["expression"])) <= set(bounds), item
