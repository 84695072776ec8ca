"""One cluster with its Prometheus for the file of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.built_programs import build_for, fail_if_missing
from tests.controlplane.monitoring.cluster import MonitoredCluster, monitored
from tools.controlplane import ControlPlane

HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take Prometheus from its package."""
    build_for(session, HERE, ("prometheus",))


@pytest.fixture(scope="module")
def monitoring(
    request: pytest.FixtureRequest,
    untouched: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MonitoredCluster]:
    """The running parts."""
    fail_if_missing(request, HERE)
    with monitored(untouched, tmp_path_factory.mktemp("monitoring")) as running:
        yield running
