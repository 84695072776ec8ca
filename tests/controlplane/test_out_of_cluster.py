"""Both programs outside of the cluster, started by the very commands of docs/outside.md."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console_sessions import blocks
from tests.controlplane.conftest import MakeNode
from tests.controlplane.terminal import Terminal
from tests.controlplane.workloads import Json, Watcher, controlled, cuda, fetch, node_of, pod
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.product import ROOT
from webhook.webhook_configuration import NAME

PAGE = (ROOT / "docs/outside.md").read_text(encoding="utf-8")
SLICE = "nvidia.com/mig-1g.5gb"
NAMES = ("scheduler", "webhook")
PRODUCT = "NVIDIA-A100-PCIE-40GB"


class Outside:
    """The page's commands as one script, with its variables set for this machine."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._terminal = Terminal(plane, folder / "home")
        self.folder = folder
        self.webhook_port, self.health_port, decisions_port = free_ports(3)
        told = {
            "ADDRESS": LOOPBACK,
            "FOLDER": folder,
            "WEBHOOK_PORT": self.webhook_port,
            "HEALTH_PORT": self.health_port,
            "DECISIONS_PORT": decisions_port,
        }
        self._settings = "".join(f"export {name}={value}\n" for name, value in told.items())

    def type(self, script: str) -> None:
        """All of it, or the failure's own words."""
        words = ["bash", "-euo", "pipefail", "-c", self._settings + script]
        ended = self._terminal.type(shlex.join(words))
        assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture
def outside(cp: ControlPlane, tmp_path: Path) -> Iterator[Outside]:
    """Started by every block but the last, and ended by that one."""
    *begin, end = blocks(PAGE, "bash")
    shell = Outside(cp, tmp_path)
    try:
        shell.type("\n".join(begin))
        yield shell
        shell.type(end)
        wait_until(lambda: not any(is_alive(shell, name) for name in NAMES), what="both to end")
    finally:
        cp.kubectl("delete", "mutatingwebhookconfiguration", NAME, "--ignore-not-found")
        for path in tmp_path.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGKILL)


def is_alive(shell: Outside, name: str) -> bool:
    """Whether a program still runs; its parent, the shell, has ended long ago."""
    return Path("/proc", (shell.folder / f"{name}.pid").read_text().strip()).exists()


@pytest.mark.timeout(600)
@pytest.mark.contract("S2-10", "S3-4", "S3-6", "S3-7", "S3-8", "S3-10")
def test_documented_commands_run_both_programs_out_of_cluster(
    outside: Outside, cp: ControlPlane, namespace: str, kwok_node: MakeNode
) -> None:
    """A map gets its environment; the seed's samples run; as the ServiceAccount and no more."""
    kwok_node("a100", mig={"1g.5gb": 1}, labels={"nvidia.com/gpu.product": PRODUCT})
    kwok_node("other", mig={"1g.5gb": 1})
    kwok_node("plain")
    labels = {"metadata": {"labels": {"gpu-scheduler.io/maps": "allowed"}}}
    cp.client.patch(f"/api/v1/namespaces/{namespace}", labels)
    here = Watcher(cp, namespace)
    mapped = pod("map-0", annotations={"gpu-scheduling-map": "0=plain:0,1"})

    def is_called() -> bool:
        made = here.client.create(f"{here.pods_path}?dryRun=All", mapped)
        return cuda(made) == "0,1"

    wait_until(is_called, what="the API server to call the webhook")
    here.create(mapped)
    here.create(sample("migadapter-small", limits={SLICE: "1"}))
    here.create(sample("migadapter-none"))
    placed = {item["metadata"]["name"]: item for item in here.wait_bound(3)}

    assert (node_of(placed["map-0"]), cuda(placed["map-0"])) == ("plain", "0,1")
    (small,) = [item for name, item in placed.items() if name.startswith("migadapter-small")]
    assert node_of(small) == "a100"
    for path in ("/healthz", "/readyz", "/livez", "/metrics"):
        assert fetch(outside.health_port, path)
    config = json.loads((outside.folder / "registration.json").read_text())
    (entry, _) = config["webhooks"]
    assert (entry["failurePolicy"], entry["sideEffects"]) == ("Ignore", "NoneOnDryRun")
    assert entry["clientConfig"]["url"] == f"https://{LOOPBACK}:{outside.webhook_port}/mutate"
    known = cp.kubectl("auth", "whoami", kubeconfig=outside.folder / "kubeconfig")
    assert "system:serviceaccount:gpu-scheduler-system:gpu-scheduler" in known


def sample(name: str, limits: dict[str, str] | None = None) -> Json:
    """The seed's Deployment: recreated, on cards of one product if it asks for a slice."""
    term = {"key": "nvidia.com/gpu.product", "operator": "In", "values": [PRODUCT]}
    wanted = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}
    where: Json = {"affinity": affinity} if limits else {}
    strategy = {"type": "Recreate"}
    return controlled("Deployment", name, replicas=1, strategy=strategy, limits=limits, **where)
