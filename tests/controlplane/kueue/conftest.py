"""One cluster with its Kueue, and with our product beside it, for the file of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.built_programs import build_for, fail_if_missing
from tests.controlplane.kueue.local_queue import remove_workloads
from tests.controlplane.kueue.running_kueue import Kueue
from tests.controlplane.workloads import Watcher
from tools.controlplane import ControlPlane
from tools.product import Product

HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build Kueue, if its tests are to run."""
    build_for(session, HERE, ("kueue",))


@pytest.fixture(scope="module")
def cp(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane of its own: Kueue's webhooks would be called for the pods of all tests."""
    fail_if_missing(request, HERE)
    with ControlPlane.start(tmp_path_factory.mktemp("controlplane")) as plane:
        yield plane


@pytest.fixture(scope="module")
def kueue(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kueue]:
    """The running manager."""
    with Kueue.start(cp, tmp_path_factory.mktemp("kueue")) as running:
        yield running


@pytest.fixture(scope="module")
def product(
    cp: ControlPlane, kueue: Kueue, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:
    """Each Namespace with a quota is a team."""
    assert kueue.is_running, "Kueue has ended"
    config = {"teams": {"source": "namespace"}, "gang": {"reserveSeconds": 0}}
    with Product(cp, tmp_path_factory.mktemp("product"), config=config) as running:
        yield running


@pytest.fixture
def pod_groups_end(here: Watcher) -> Iterator[None]:
    """Delete the Workloads before the namespace.

    Kueue's finalizer keeps the pods of a group until their Workload is deleted; a namespace that
    ends deletes nothing else before its pods are gone.
    """
    yield
    remove_workloads(here)
