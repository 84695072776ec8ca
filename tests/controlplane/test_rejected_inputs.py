"""The table of rejected objects, sent to the real API server: it names the same fields."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.rejected_inputs import ACCEPTED, REJECTED
from tools.controlplane import ApiError, ControlPlane

Json = dict[str, Any]
FOLDERS: Final = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}


def create(cp: ControlPlane, namespace: str, body: Json) -> None:
    """Create an object in a dry run."""
    cp.client.create(FOLDERS[body["kind"]].format(namespace) + "?dryRun=All", body)


@pytest.mark.parametrize("case", REJECTED)
def test_api_server_rejects_the_field(cp: ControlPlane, namespace: str, case: str) -> None:
    body, field = REJECTED[case]

    with pytest.raises(ApiError) as found:
        create(cp, namespace, body)

    causes = found.value.answer["details"]["causes"]
    assert found.value.status == 422
    assert field in {cause["field"] for cause in causes}


@pytest.mark.parametrize("case", ACCEPTED)
def test_api_server_accepts_the_object(cp: ControlPlane, namespace: str, case: str) -> None:
    create(cp, namespace, ACCEPTED[case])
