"""One product with short times for each file of migrations, and a partitioned node for each
test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.migration_scene import QUICK, cut_node
from tests.controlplane.workloads import Watcher
from tools.controlplane import ControlPlane
from tools.product import Product


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    """A file that needs another configuration says so by a fixture of its own."""
    return QUICK


@pytest.fixture(scope="module")
def product(
    cp: ControlPlane, config: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:
    """Scheduler and webhook with short times."""
    with Product(cp, tmp_path_factory.mktemp("product"), config=config) as running:
        yield running


@pytest.fixture
def here(product: Product, namespace: str, kwok_node: MakeNode) -> Watcher:
    """A namespace, and a node whose big slice is held."""
    assert product.is_running("webhook")
    return cut_node(product, namespace, kwok_node)
