"""The fake GPU operator on the real node: its controller, and its agent as a DaemonSet runs it."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.containers import Json, execute
from tools.controlplane import ControlPlane
from tools.controlplane.client import wait_until
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.programs.go_program import ensure_go_program
from tools.product import ROOT, merged
from tools.realnode import RealNode

ACCOUNT: Final = "gpu-operator/nvidia-device-plugin"
SMI: Final = ROOT / "fakegpu" / "smi" / "nvidia-smi"
NAME: Final = "agent"
GPU: Final = "nvidia.com/gpu"
POOL: Final = "run.ai/simulated-gpu-node-pool"
DEVICES: Final = "gpu-scheduler.io/devices"
FAILURES: Final = "gpu-scheduler.io/fake-failures"
POOLS: Final[Json] = {
    "nodePools": {
        "four": {
            "gpu": {"profile": "a100", "overrides": {"device_count": 4}},
            "resources": [{"rdma/hca": 2}],
        },
        "eight": {"gpus": [{"type": "h100", "count": 8}]},
        "many": {"gpus": [{"type": "h100", "count": 32}]},
        "sliced": {
            "gpus": [{"type": "t4", "count": 1}],
            "sharing": {
                "timeSlicing": {"resources": [{"name": GPU, "replicas": 8}]},
            },
        },
        "renamed": {
            "gpus": [{"type": "t4", "count": 2}],
            "sharing": {
                "timeSlicing": {
                    "renameByDefault": True,
                    "resources": [{"name": GPU, "replicas": 4}],
                },
            },
        },
        "cut": {
            "gpuProduct": "NVIDIA-H200",
            "gpuCount": 2,
            "gpuMemory": 71680,
            "mig": {"mig-devices": {"1g.10gb": 7}},
        },
    }
}


class Agent:
    """One agent, with exactly the roles that we ship."""

    def __init__(self, plane: ControlPlane, node: RealNode, directory: Path) -> None:
        self._plane = plane
        self._node = node
        self._directory = directory
        (self.port,) = free_ports(1)
        self._is_started = False

    def __enter__(self) -> Agent:
        try:
            self.start()
        except BaseException:  # an interrupt too leaves nothing running
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def install(self) -> None:
        """Apply its roles."""
        roles = ROOT / "cluster" / "fakegpu-node-rbac.yaml"
        self._plane.kubectl("apply", "-f", str(roles))

    def start(self, **settings: Any) -> None:
        """Start it and wait until its metrics are served."""
        config = {
            "apiVersion": "gpu-scheduler.io/v1",
            "kind": "FakeGpuConfiguration",
            "node": {
                "host": LOOPBACK,
                "port": self.port,
                "nvidiaSmi": str(ensure_go_program(SMI)),
                "prometheusUrl": "",
                "exportIntervalS": 1.0,
            },
        }
        path = self._directory / "agent.yaml"
        path.write_text(yaml.safe_dump(merged(config, settings)), encoding="utf-8")
        words = ["-m", "fakegpu", "node", "--node-name", self._node.name, "--config", str(path)]
        kubeconfig = self._plane.kubeconfig_for(ACCOUNT, node=self._node.name)
        self._node.run(NAME, [sys.executable, *words, "--kubeconfig", str(kubeconfig)])
        self._is_started = True
        wait_until(self._answers, what=f"the agent; see {self._node.log(NAME)}")

    def stop(self, *, crash: bool = False) -> None:
        """End it, if it is there."""
        if self._is_started:
            self._is_started = False
            self._node.end(NAME, crash=crash)

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Without it for as long as the block lasts, as after a crash; then it is back."""
        try:
            self.stop(crash=True)
            yield
        finally:
            self.start()

    def metrics(self) -> str:
        """What Prometheus would scrape."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def log(self) -> str:
        """Its whole log."""
        return self._node.log(NAME).read_text(errors="replace")

    def _answers(self) -> bool:
        try:
            self.metrics()
        except OSError:
            return False
        return True


def wait_allocatable(cp: ControlPlane, node: RealNode, **amounts: int) -> Json:
    """``gpu=4`` is nvidia.com/gpu."""

    def fits(seen: Json) -> bool:
        there = seen["status"]["allocatable"]
        return all(
            there.get(f"nvidia.com/{name.replace('_', '-').replace('--', '.')}") == str(count)
            for name, count in amounts.items()
        )

    seen: Json = cp.client.wait_for(
        f"/api/v1/nodes/{node.name}", fits, what=f"allocatable {amounts}"
    )
    return seen


def indexes(cp: ControlPlane, node: RealNode, namespace: str, name: str) -> list[int]:
    """Indexes on the node of the GPUs that a pod sees."""
    path = f"/api/v1/namespaces/gpu-operator/configmaps/topology-{node.name}"
    text = cp.client.get(path)["data"]["topology.yml"]
    ids = [line.split("id: ")[1] for line in text.splitlines() if "- id: " in line]
    words = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")
    return sorted(ids.index(one) for one in execute(cp, namespace, name, *words).split())
