"""What `gpuctl doctor` finds at the APIService of the aggregated decisions API."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from gpuctl.doctor.api_types import ApiObject, aggregated_of
from gpuctl.doctor.checks import examine
from gpuctl.doctor.facts import Aggregated, Unread
from gpuctl.doctor.finding import Finding, Level
from scheduler.model.decisions.messages import API_SERVICE
from tests.unit.gpuctl.doctor.wellcluster import (
    CERTIFICATE,
    ENTRY,
    TARGET,
    facts,
    replaced,
    webhook,
)

SERVICE = "gpu-scheduler-system/gpu-scheduler-webhook"
WELL = Aggregated(
    service=SERVICE,
    target=TARGET,
    has_bundle=True,
    is_available=True,
    reason="Passed",
    message="all checks passed",
    certificate=CERTIFICATE,
)


def finding(aggregated: Any, **changes: Any) -> Finding:
    """The line of the decisions API."""
    every = examine(facts(aggregated=aggregated, **changes))
    [found] = [one for one in every if one.about == "decisions API"]
    return found


def test_disabled_decisions_api_has_no_line() -> None:
    assert "decisions API" not in {one.about for one in examine(facts())}


def test_available_service_is_ok() -> None:
    found = finding(WELL)

    assert (found.level, found.advice) == (Level.OK, "")
    assert SERVICE in found.says


@pytest.mark.parametrize(
    ("changes", "says", "advice"),
    [
        pytest.param(
            {"is_available": False, "reason": "ServiceNotFound", "message": "not present"},
            "is not available, so no deletion of a namespace ends (ServiceNotFound: not present)",
            "helm upgrade the release",
            id="no-service",
        ),
        pytest.param(
            {"is_available": False, "reason": "ServicePortError", "message": "port 8445"},
            "ServicePortError: port 8445",
            "helm upgrade the release",
            id="no-port",
        ),
        pytest.param(
            {"is_available": False, "reason": "MissingEndpoints", "message": "no addresses"},
            "MissingEndpoints: no addresses",
            "kubectl -n gpu-scheduler-system get pods",
            id="no-replica",
        ),
        pytest.param(
            {"is_available": False, "reason": "FailedDiscoveryCheck", "message": "refused"},
            "FailedDiscoveryCheck: refused",
            "front proxy unknown",
            id="not-reached",
        ),
        pytest.param(
            {"is_available": False, "reason": "", "message": ""},
            "not checked yet by the API server",
            f"kubectl delete apiservice {API_SERVICE}",
            id="new",
        ),
        pytest.param({"has_bundle": False}, "has no caBundle", "helm upgrade", id="no-bundle"),
        pytest.param(
            {"certificate": replaced(CERTIFICATE, is_trusted=False), "is_available": False},
            f"did not issue the certificate of {SERVICE}",
            "helm upgrade",
            id="other-authority",
        ),
        pytest.param(
            {"certificate": replaced(CERTIFICATE, names=("other",))},
            f"does not name {TARGET}",
            "create a new one",
            id="other-name",
        ),
        pytest.param(
            {"target": "gpu-scheduler-webhook.old.svc"},
            f"names the Service gpu-scheduler-webhook.old.svc, the webhook has {TARGET}",
            "in one release only",
            id="other-release",
        ),
    ],
)
def test_each_fault_is_named_with_its_remedy(
    changes: dict[str, Any], says: str, advice: str
) -> None:
    found = finding(replaced(WELL, **changes))

    assert found.level is Level.FAIL
    assert says in found.says
    assert advice in found.advice


def test_long_message_is_cut() -> None:
    fault = {"is_available": False, "reason": "FailedDiscoveryCheck", "message": "x" * 999}

    assert len(finding(replaced(WELL, **fault)).says) < 400


def test_registration_by_url_has_no_service_to_compare() -> None:
    by_url = webhook(entries=(replaced(ENTRY, target="127.0.0.1", service=""),))

    assert finding(WELL, webhook=by_url).level is Level.OK


def test_unread_certificate_is_left_to_the_condition() -> None:
    assert finding(replaced(WELL, certificate=Unread("forbidden"))).level is Level.OK


def test_missing_right_is_a_warning() -> None:
    assert finding(Unread("forbidden")).level is Level.WARN


def test_object_of_the_api_server_is_read_as_it_is() -> None:
    body = {
        "spec": {
            "caBundle": base64.b64encode(b"pem").decode(),
            "service": {"namespace": "gpu-scheduler-system", "name": "gpu-scheduler-webhook"},
        },
        "status": {
            "conditions": [
                {"type": "Available", "status": "False", "reason": "X", "message": "why"}
            ]
        },
    }

    found = aggregated_of(msgspec.convert(body, ApiObject))

    expected = {"is_available": False, "reason": "X", "message": "why"}
    assert found == replaced(WELL, **expected, certificate=Unread("not asked"))
