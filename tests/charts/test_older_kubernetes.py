"""What an API server does not have is not rendered."""

from __future__ import annotations

import pytest

from tests.charts.rendering import SCHEDULER, objects

ENABLED = ("--set", "nodePartition.enabled=true")
V1 = "admissionregistration.k8s.io/v1"
KIND = "MutatingAdmissionPolicy"


@pytest.mark.parametrize(
    ("words", "version"),
    [
        pytest.param(("--kube-version", "1.36.0"), V1, id="1.36"),
        pytest.param(("--kube-version", "1.34.4"), None, id="1.34"),
        pytest.param(
            ("--kube-version", "1.35.0", "--api-versions", f"{V1}beta1/{KIND}"),
            f"{V1}beta1",
            id="1.35-with-beta",
        ),
    ],
)
def test_node_partition_has_the_version_that_the_api_server_serves(
    words: tuple[str, ...], version: str | None
) -> None:
    found = [one for one in objects(SCHEDULER, *ENABLED, *words) if KIND in one["kind"]]

    assert [one["apiVersion"] for one in found] == [version] * (2 if version else 0)
