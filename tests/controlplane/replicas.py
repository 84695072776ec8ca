"""Several replicas of the product: each a scheduler with its webhook, and one token for all."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.controlplane.workloads import fetch
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.product import SHORT_LEASE, Product, merged

SERVICE: Final = "gpu-scheduler.gpu-scheduler-system.svc"


class Replicas:
    """Makes replicas on one control plane, and ends them all at the end of the block."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._plane = plane
        self._directory = directory
        self.made: list[Product] = []
        pair = plane.serving_certificate("forward", [SERVICE])
        self._certificates = directory / "forward"
        self._certificates.mkdir()
        (self._certificates / "tls.crt").write_bytes(pair.certificate.read_bytes())
        (self._certificates / "tls.key").write_bytes(pair.key.read_bytes())
        (directory / "token").write_text("known to our pods only\n")

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as ends:  # all of them, whatever one says
            for replica in self.made:
                ends.callback(replica.close)
            if self.made:
                self.made[0].unregister()

    def make(
        self,
        name: str,
        *,
        config: Mapping[str, Any] | None = None,
        scope: str = "all",
        kubeconfig: Path | None = None,
    ) -> Product:
        """Start a scheduler with a webhook beside it; ``config`` is merged over ours.

        Its lease is short, because a test or a storm may kill the leader.
        """
        own = {
            "leaderElection": SHORT_LEASE,
            "forward": {
                "address": f"{LOOPBACK}:{free_ports(1)[0]}",
                "certDir": str(self._certificates),
                "caFile": str(self._plane.ca_certificate),
                "serverName": SERVICE,
                "tokenFile": str(self._directory / "token"),
            },
        }
        replica = Product(
            self._plane,
            self._directory / name,
            config=merged(own, config or {}),
            scope=scope,
            kubeconfig=kubeconfig,
        )
        replica.directory.mkdir()
        self.made.append(replica)
        replica.start_scheduler()
        replica.start_webhook()
        return replica


def leader_of(replicas: list[Product]) -> tuple[Product, Product]:
    """The replica that leads, and the other one."""

    def leads(replica: Product) -> bool:
        name = 'gpu_scheduler_leader_election_master_status{name="gpu-scheduler"} 1.0'
        return replica.is_running("scheduler") and name in fetch(replica.health_port, "/metrics")

    wait_until(lambda: any(map(leads, replicas)), what="one of them to lead")
    first, second = replicas
    return (first, second) if leads(first) else (second, first)
