"""The table of rejected objects, sent to the real API server: it names the same fields."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gpuctl.simulate.validation import unknown_fields
from tests.rejected_inputs import ACCEPTED, REJECTED
from tools.controlplane import ApiError, ControlPlane
from tools.golden import api_fields

Json = dict[str, Any]
OPENAPI: Final = ("api/v1", "apis/apps/v1", "apis/batch/v1")
FOLDERS: Final = {
    "Pod": "/api/v1/namespaces/default/pods",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
}


@pytest.fixture(scope="module", autouse=True)
def _account(cp: ControlPlane) -> None:
    """Of the namespace of all dry runs."""
    cp.wait_for_service_account("default")


def create(cp: ControlPlane, body: Json) -> None:
    """Create an object in a dry run; no webhook of ours is called for another scheduler's pods."""
    spec = body["spec"] | ({"schedulerName": "another"} if body["kind"] == "Pod" else {})
    path = FOLDERS[body["kind"]] + "?dryRun=All"
    cp.client.create(path, {**body, "spec": spec})


@pytest.mark.parametrize("case", REJECTED)
def test_api_server_rejects_the_field(cp: ControlPlane, case: str) -> None:
    body, field = REJECTED[case]

    with pytest.raises(ApiError) as found:
        create(cp, body)

    causes = found.value.answer["details"]["causes"]
    assert found.value.status == 422
    assert field in {cause["field"] for cause in causes}


@pytest.mark.parametrize("case", ACCEPTED)
def test_api_server_accepts_the_object(cp: ControlPlane, case: str) -> None:
    create(cp, ACCEPTED[case])


def test_every_field_of_the_server_is_known_to_the_notes(cp: ControlPlane) -> None:
    """A field that a newer server adds would be noted as a typing error."""
    known = unknown_fields.fields()
    new = {
        f"{name}.{prop}"
        for path in OPENAPI
        for name, row in api_fields.fields(cp.client.get(f"/openapi/v3/{path}")).items()
        for prop in row
        if prop not in known.get(name, {})
    }

    assert new == set()
