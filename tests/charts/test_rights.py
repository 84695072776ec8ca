"""The rights of each release's account: migrations by mode, policies by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.rendering import SCHEDULER, Json, objects, one, settings

OF_OWNERS = {"deployments", "replicasets", "statefulsets", "jobs"}
TICKETS = {"podmigrations", "podmigrations/status"}
EVICTION = {"pods/eviction"}


def granted(found: list[Json]) -> set[str]:
    """Every kind that a role of the release names."""
    rules = [rule for each in found for rule in each.get("rules") or () if "verbs" in rule]
    return {kind for rule in rules for kind in rule["resources"]}


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        pytest.param("config.restore.mode=on", OF_OWNERS | TICKETS | EVICTION, id="on"),
        pytest.param("config.restore.mode=true", OF_OWNERS | TICKETS | EVICTION, id="yamls-on"),
        pytest.param("config=null", OF_OWNERS | TICKETS | EVICTION, id="default"),
        pytest.param("config.restore.mode=report", OF_OWNERS | TICKETS, id="report"),
        pytest.param("config.restore.mode=off", set(), id="off"),
        pytest.param("config.restore.mode=false", set(), id="yamls-off"),
    ],
)
def test_migration_rights_follow_the_migration_mode(setting: str, given: set[str]) -> None:
    found = objects(SCHEDULER, *settings(setting))

    assert granted(found) & (OF_OWNERS | TICKETS | EVICTION) == given
    assert granted(found) >= {"pods/binding", "pods/status", "leases", "migpartitions"}


def variables(found: list[Json], policy: str) -> dict[str, Any]:
    """The variables of an admission policy."""
    spec = one(found, "ValidatingAdmissionPolicy", policy)["spec"]
    return {each["name"]: each["expression"] for each in spec["variables"]}


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        pytest.param((), "own", id="default"),
        pytest.param(("config.preemption.victims=all",), "all", id="all"),
        pytest.param(("config.preemption.enabled=false",), "off", id="off"),
        pytest.param(
            ("config.preemption.enabled=false", "config.preemption.victims=all"),
            "off",
            id="off-all",
        ),
    ],
)
def test_policies_and_roles_follow_the_preemption_mode(words: tuple[str, ...], mode: str) -> None:
    found = objects(SCHEDULER, *settings(*words, "config.restore.mode=off"))

    assert variables(found, "gpu-scheduler-deletes")["preemption"] == f'"{mode}"'
    policies = {each["metadata"]["name"] for each in found}
    assert ("gpu-scheduler-preemptions" in policies) == (mode != "off")
    assert ("poddisruptionbudgets" in granted(found)) == (mode != "off")


def test_policies_carry_the_release_name() -> None:
    """Account, scheduler names, scope and unseen namespaces are those of the release."""
    words = settings(
        "scheduler.name=mine",
        "config.fallback.scope=all",
        "webhook.excludedNamespaces={vault}",
        "admissionPolicies.otherSchedulers={gpu-scheduler}",
    )
    found = objects(SCHEDULER, *words, release="second", namespace="elsewhere")
    name, user = "second-gpu-scheduler", "system:serviceaccount:elsewhere:second-gpu-scheduler"

    assert variables(found, f"{name}-deletes")["scheduler"] == '"mine"'
    seen = variables(found, f"{name}-protected-annotations")
    assert {key: seen[key] for key in ("schedulers", "scope", "unseen")} == {
        "schedulers": '["mine","gpu-scheduler"]',
        "scope": '"all"',
        "unseen": '["elsewhere","kube-system","vault"]',
    }
    for policy in (
        *("bindings", "fencing", "deletes", "status", "volumes", "claims", "extended-resources"),
        *("claim-terms", "partitions", "preemptions"),
    ):
        whole = one(found, "ValidatingAdmissionPolicy", f"{name}-{policy}")
        *_, condition = whole["spec"]["matchConditions"]
        assert condition["expression"].endswith(f"= '{user}'")
        bound = one(found, "ValidatingAdmissionPolicyBinding", f"{name}-{policy}")
        assert bound["spec"]["policyName"] == f"{name}-{policy}"
    assert "gpu-scheduler-system" not in str(found)


def test_policy_and_registration_select_the_same_namespaces() -> None:
    """What the webhook never sees is what no pod may claim a reservation in."""
    found = objects(SCHEDULER, *settings("webhook.excludedNamespaces={vault,kube-system}"))
    unseen = variables(found, "gpu-scheduler-protected-annotations")["unseen"]

    for entry in one(found, "MutatingWebhookConfiguration")["webhooks"]:
        first = entry["namespaceSelector"]["matchExpressions"][0]
        assert str(first["values"]).replace("'", '"').replace(" ", "") == unseen
