"""Runs the fake GPU operator's controller on a control plane as in a cluster.

It has its ServiceAccount and the roles of ``cluster/fakegpu-rbac.yaml``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.process import Running, put_aside, start, tail
from tools.product import LEASE, ROOT, START_S, ProductError, merged, release_lease

NAMESPACE: Final = "gpu-operator"
LEASE_PATH: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fake-gpu-operator"
APPLY: Final = "application/apply-patch+yaml"
ACCOUNT: Final = f"{NAMESPACE}/fake-gpu-operator"


class FakeOperator:
    """One controller with its own directory; ``config`` is merged into the defaults here.

    A ``detached`` one keeps running after this process.
    """

    def __init__(
        self,
        plane: ControlPlane,
        directory: Path,
        *,
        config: Mapping[str, Any] | None = None,
        detached: bool = False,
    ) -> None:
        self._plane = plane
        self._leashed = not detached
        self._directory = directory
        (self.port,) = free_ports(1)
        self._config = merged(
            {
                "apiVersion": "gpu-scheduler.io/v1",
                "kind": "FakeGpuConfiguration",
                "leaderElection": LEASE,
                "server": {"host": LOOPBACK, "port": self.port},
            },
            config or {},
        )
        self._program: Running | None = None

    def __enter__(self) -> FakeOperator:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def install(self, *more: str) -> None:
        """Apply the roles, and ``more`` files of ``cluster/``."""
        files = [str(ROOT / "cluster" / name) for name in ("fakegpu-rbac.yaml", *more)]
        self._plane.kubectl("apply", *(word for file in files for word in ("-f", file)))

    def configure(self, topology: Mapping[str, Any]) -> None:
        """Apply the ConfigMap with the pools, like the chart."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "topology", "namespace": NAMESPACE},
            "data": {"topology.yml": yaml.safe_dump(dict(topology))},
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology?fieldManager=helm&force=true"
        self._plane.client.patch(path, body, content_type=APPLY)

    def start(self) -> None:
        """Start it and wait until its caches are filled."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / "fakegpu.yaml"
        path.write_text(yaml.safe_dump(self._config), encoding="utf-8")
        kubeconfig = self._plane.kubeconfig_for(ACCOUNT)
        words = ["fakegpu", "controller", "--config", str(path), "--kubeconfig", str(kubeconfig)]
        put_aside(self._log)
        command = [sys.executable, "-m", *words]
        self._program = start(
            "fakegpu",
            command,
            log=self._log,
            home=self._directory,
            dies_with_parent=self._leashed,
        )
        try:
            wait_until(self._is_ready, what="fakegpu to fill its caches", timeout_s=START_S)
        except BaseException:  # after an interrupt too, it does not keep running
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it with SIGTERM, like the kubelet."""
        if self._program is not None:
            self._program.stop()
            self._program = None

    def kill(self) -> None:
        """Send SIGKILL, like a crash."""
        if self._program is not None:
            self._program.kill()
            self._program = None

    def free_lease(self) -> None:
        """Release the lease of a killed leader: the next one need not wait for its expiry."""
        release_lease(self._plane, LEASE_PATH)

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._program is not None, "it was started"
        return self._program.pid

    def log(self) -> str:
        """Its log."""
        return self._log.read_text(errors="replace")

    @property
    def _log(self) -> Path:
        return self._directory / "fakegpu.log"

    def _is_ready(self) -> bool:
        if self._program is None or not self._program.is_alive():
            raise ProductError(f"fakegpu ended:\n{tail(self._log)}")
        return "caches synced" in self.log()
