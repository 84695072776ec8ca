"""decisionsApi.aggregated: nothing while it is off; else one APIService with its few rights."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.decisions.messages import GROUP, VERSION
from tests.charts.rendering import SCHEDULER, Json, containers, kinds, objects, one, settings, text
from tests.charts.test_pod import config_of
from tests.unit.docs.test_security import section
from tools.charts.helm import HelmFailed
from webhook.__main__ import parse as parse_webhook
from webhook.aggregated.objects import VERBS

NAME = f"{VERSION}.{GROUP}"
ON = "decisionsApi.aggregated=true"


def rendered(*words: str) -> list[Json]:
    """The release with the aggregated decisions API."""
    return objects(SCHEDULER, *settings(ON, *words))


def port_of(found: list[Json]) -> Any:
    """The port of the webhook's Service to which the API server proxies."""
    service = one(found, "APIService")["spec"]["service"]
    ports = one(found, "Service", service["name"])["spec"]["ports"]
    return next(each for each in ports if each["port"] == service["port"])


def test_release_without_it_has_no_trace_of_it() -> None:
    plain = text(SCHEDULER)

    assert GROUP not in plain
    assert "decisionsApi" not in plain
    assert "extension-apiserver-authentication-reader" not in plain
    assert "--decisions-port" not in plain


def test_api_service_is_added_and_nothing_else_but_its_rights() -> None:
    def names(found: list[Json]) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in found}

    assert names(rendered()) - names(objects()) == {
        ("APIService", NAME),
        ("ClusterRole", "gpu-scheduler-decisions"),
        ("RoleBinding", "gpu-scheduler-authentication-reader"),
    }


def test_api_server_trusts_the_webhook_as_its_registration_does() -> None:
    """The same rendering of the authority, which is another one each time."""
    found = rendered()
    [review, _] = one(found, "MutatingWebhookConfiguration")["webhooks"]
    spec = one(found, "APIService")["spec"]

    assert spec["caBundle"] == review["clientConfig"]["caBundle"]
    assert spec["service"]["name"] == review["clientConfig"]["service"]["name"]
    assert "insecureSkipTLSVerify" not in spec


@pytest.mark.parametrize(
    ("words", "bundle", "annotations"),
    [
        pytest.param(("webhook.caBundle=QQ==",), "QQ==", None, id="own-certificates"),
        pytest.param(
            ("webhook.certificates.mode=certManager",),
            None,
            {"cert-manager.io/inject-ca-from": "gpu-scheduler-system/gpu-scheduler-webhook"},
            id="cert-manager",
        ),
    ],
)
def test_ca_bundle_follows_the_certificate_source(
    words: tuple[str, ...], bundle: str | None, annotations: dict[str, str] | None
) -> None:
    service = one(rendered(*words), "APIService")

    assert service["spec"].get("caBundle") == bundle
    assert service["metadata"].get("annotations") == annotations


@pytest.mark.parametrize("port", [8445, 9445])
def test_port_reaches_the_webhook_container(port: int) -> None:
    found = rendered(f"decisionsApi.port={port}")
    webhook = containers(one(found, "Deployment"))["webhook"]
    target = next(each for each in webhook["ports"] if each["name"] == port_of(found)["targetPort"])

    assert target["containerPort"] == port
    assert parse_webhook(webhook["args"], {}).decisions_port == port
    assert config_of(found).decisions_api.aggregated


def test_network_policy_lets_the_port_through() -> None:
    [first, *_] = one(rendered(), "NetworkPolicy")["spec"]["ingress"]
    [plain, *_] = one(objects(), "NetworkPolicy")["spec"]["ingress"]

    assert first["ports"] == [*plain["ports"], {"port": "decisions", "protocol": "TCP"}]


def test_view_may_get_and_list_decisions_and_nothing_else() -> None:
    role = one(rendered(), "ClusterRole", "gpu-scheduler-decisions")

    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert role["rules"] == [
        {"apiGroups": [GROUP], "resources": ["decisions"], "verbs": list(VERBS)}
    ]


def test_scheduler_reads_the_front_proxy_by_kubernetes_own_role() -> None:
    binding = one(rendered(), "RoleBinding", "gpu-scheduler-authentication-reader")

    assert binding["metadata"]["namespace"] == "kube-system"
    assert binding["roleRef"]["name"] == "extension-apiserver-authentication-reader"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "gpu-scheduler", "namespace": "gpu-scheduler-system"}
    ]


def test_security_page_lists_these_rights() -> None:
    rows = [cells[:3] for cells in section("Only with `decisionsApi.aggregated: true`")]

    assert rows == [
        [
            "`kube-system`, `extension-apiserver-authentication`",
            "`configmaps`",
            "get, list, watch",
        ],
        ["cluster, for users", f"`{GROUP}/decisions`", ", ".join(VERBS)],
    ]


def test_own_roles_are_left_to_the_administrator() -> None:
    added = {kind for kind in kinds(rendered("rbac.create=false")) if "Role" in kind}

    assert added == set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param((ON, "webhook.enabled=false"), "needs the webhook", id="no-webhook"),
        pytest.param((ON, "decisionsApi.port=8443"), "must differ", id="port"),
        pytest.param((ON, "decisionsApi.port=443"), "must differ", id="service-port"),
        pytest.param(("config.decisionsApi.aggregated=true",), "decisionsApi", id="configuration"),
    ],
)
def test_impossible_combination_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(HelmFailed, match=said):
        text(SCHEDULER, *settings(*words))
