"""The running product as fixtures, for tests on the API server and on the real kubelet alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.workloads import Watcher
from tools.controlplane import ControlPlane
from tools.product import Product


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Scheduler and webhook, maps allowed everywhere; a file with other needs has its own."""
    with Product(cp, tmp_path_factory.mktemp("product")) as running:
        yield running


@pytest.fixture
def here(cp: ControlPlane, product: Product, namespace: str) -> Watcher:
    """A fresh namespace beside the running product."""
    assert product.is_running("scheduler")
    return Watcher(cp, namespace)
