"""What an API server does not have is not rendered, and a server that is too old is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuctl.doctor.checks.cluster import OLDEST
from tests.charts.rendering import CHECK, FAKE, SCHEDULER, objects

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


@pytest.mark.parametrize("chart", [SCHEDULER, CHECK, FAKE], ids=lambda chart: chart.name)
def test_chart_requires_the_oldest_version_that_the_doctor_accepts(chart: Path) -> None:
    described = yaml.safe_load((chart / "Chart.yaml").read_text())

    assert described["kubeVersion"] == f">={OLDEST[0]}.{OLDEST[1]}.0-0"
