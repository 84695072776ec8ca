"""The real node as one whose GPUs a DRA driver publishes, ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.agent import POOLS, Agent
from tests.e2e.claims import devices
from tests.e2e.conftest import Pool
from tests.leftovers import delete_kinds
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import free_ports
from tools.fake_operator import FakeOperator
from tools.product import ROOT
from tools.realnode import RealNode

KINDS = (
    "fakegpu-device-classes.yaml",
    "fakegpu-domains-classes.yaml",
    "crd-computedomains.yaml",
)


@pytest.fixture(scope="module")
def operator(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOperator]:
    """The controller, which leaves the GPUs to DRA and offers those that can be cut in parts."""
    on = {
        "dra": {"kubelet": "instead", "partitionable": True},
        "computeDomains": {"enabled": True},
    }
    running = FakeOperator(cp, tmp_path_factory.mktemp("operator"), config=on)
    pools = {**POOLS["nodePools"], "plain": {"gpus": [{"type": "l40s", "count": 3}]}}

    def remove(*names: str) -> None:
        delete_kinds(cp, *(ROOT / "cluster" / name for name in names))

    try:
        running.install("fakegpu-dra-rbac.yaml", "fakegpu-domains-rbac.yaml", *KINDS)
        running.configure({"nodePools": pools})
        with running:
            yield running
            remove(*KINDS)  # while the controller that removes the finalizers still runs
    finally:
        roles = sorted(path.name for path in (ROOT / "cluster").glob("fakegpu*-rbac.yaml"))
        remove(*KINDS, *roles)


class DraAgent(Agent):
    """The node's agent with DRA."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.health_port, self._domains_port = free_ports(2)

    def start(self, **settings: Any) -> None:
        """Start it with DRA and compute domains."""
        dra = {"kubelet": "instead", "partitionable": True, "healthPort": self.health_port}
        # The one folder that the node's container runtime reads.
        domains = {
            "enabled": True,
            "cdiFolder": "/var/run/cdi",
            "healthPort": self._domains_port,
        }
        super().start(dra=dra, computeDomains=domains, **settings)


@pytest.fixture(scope="module")
def agent_kind() -> type[Agent]:
    return DraAgent


@pytest.fixture
def plain(cp: ControlPlane, node: RealNode, pool: Pool) -> RealNode:
    """The node with three whole GPUs."""
    pool("plain")
    wait_until(
        lambda: (
            [one for one in devices(cp, node) if "taints" not in one][2:] != []
            and len(devices(cp, node)) == 3
        ),
        what="three usable devices",
    )
    return node
