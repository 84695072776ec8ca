"""The two compared schedulers, each started cold with its real identity.

Both without client rate limits, neither as system:masters, kube-scheduler without leader election.
Ours elects a leader only where it preempts pods: the admission policies compare the term of a
preemption with the Lease's. A cold start with an election would measure the Lease.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from tools.controlplane import ControlPlane
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.process import Running, start
from tools.product import MANIFESTS

ROOT = Path(__file__).resolve().parent.parent


class SchedulerUnderTest(Protocol):
    """A scheduler that can be started."""

    name: str
    scheduler_name: str
    log: Path

    def start(self) -> Running:
        """Start it, cold."""


@dataclass
class Ours:
    """``python -m scheduler`` as its ServiceAccount."""

    plane: ControlPlane
    directory: Path
    name: str = "ours"
    scheduler_name: str = "gpu-scheduler"
    elects: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = self.directory / "ours.log"

    def start(self) -> Running:
        """Start it, cold."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "scheduler.yaml"
        settings = {
            "leaderElection": {"leaderElect": self.elects},
            "healthAddress": f"{LOOPBACK}:{free_ports(1)[0]}",
            **self.settings,
        }
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        kubeconfig = self.plane.kubeconfig_for("gpu-scheduler-system/gpu-scheduler")
        words = ["-m", "scheduler", "--config", str(config), "--kubeconfig", str(kubeconfig)]
        return start("ours", [sys.executable, *words], log=self.log, home=self.directory)


@dataclass
class KubeScheduler:
    """The stock kube-scheduler, without QPS limits."""

    plane: ControlPlane
    directory: Path
    name: str = "kube_scheduler"
    scheduler_name: str = "default-scheduler"
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.log = self.directory / "kube-scheduler.log"

    def start(self) -> Running:
        """Start it, cold."""
        self.directory.mkdir(parents=True, exist_ok=True)
        kubeconfig = self.plane.kubeconfig_for_user("system:kube-scheduler")
        config = self.directory / "kube-scheduler.yaml"
        settings = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 100000, "burst": 100000},
            "leaderElection": {"leaderElect": False},
        }
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        (port,) = free_ports(1)
        program = str(self.plane.program("kube-scheduler"))
        words = [f"--config={config}", f"--secure-port={port}", f"--bind-address={LOOPBACK}"]
        return start(
            "kube-scheduler",
            [program, *words, f"--cert-dir={self.directory}", *self.flags],
            log=self.log,
            home=self.directory,
        )


def apply_roles(plane: ControlPlane) -> None:
    """Create our ServiceAccount and its roles."""
    for name in ("rbac.yaml", "rbac-migrations.yaml"):
        plane.kubectl("apply", "-f", str(ROOT / "cluster" / name))


def apply_manifests(plane: ControlPlane) -> None:
    """Create everything that the chart installs in the API server: roles, policies, priorities."""
    for name in MANIFESTS:
        plane.kubectl("apply", "-f", str(ROOT / "cluster" / name))
