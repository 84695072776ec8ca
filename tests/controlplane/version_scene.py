"""Replicas of two versions of the release side by side, and a stream of pods that they place.

A replica is a scheduler with its webhook, started from a source tree with what the release says at
that moment: the ConfigMap's file and the ServiceAccount's rights, as a pod that the Deployment
creates then. Only places differ: folders for volumes and the loopback interface for addresses.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane.migration_scene import QUICK
from tests.controlplane.release import CONFIG, NAME, NAMESPACE
from tests.controlplane.workloads import Watcher, node_of, pod
from tests.patience import PATIENCE_S
from tools.controlplane import ApiError, ControlPlane, ControlPlaneError, wait_until
from tools.controlplane.ports import LOOPBACK
from tools.controlplane.process import Running, start, tail
from tools.product import LEASE, ROOT, START_S, merged

LEASE_PATH: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
LEADER_ADDRESS: Final = "gpu-scheduler.io/leader-address"
ACCOUNT: Final = f"{NAMESPACE}/{NAME}"
SYNCED: Final = ("caches synced", "caches filled")
EVERY_S: Final = 0.4


def tree_of(commit: str, directory: Path) -> Path:
    """The tree of a commit."""
    command = ["git", "-C", str(ROOT), "archive", commit]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, f"the history up to {commit} is needed: {done.stderr.decode()}"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as content:
        content.extractall(directory, filter="data")
    return directory


class Replica:
    """A scheduler and a webhook of one version; ``ports`` are those of forwarding, health,
    decisions and the webhook."""

    def __init__(
        self, plane: ControlPlane, directory: Path, tree: Path, ports: tuple[int, int, int, int]
    ) -> None:
        self._plane = plane
        self._directory = directory
        self._tree = tree
        forward, self.health_port, self._decisions, self.webhook_port = ports
        self.address = f"{LOOPBACK}:{forward}"
        self._programs: list[Running] = []

    def start(self) -> None:
        """Returns once its caches are filled and its webhook serves."""
        self._directory.mkdir(parents=True)
        (self._directory / "certs").mkdir()
        config = self._directory / "scheduler.yaml"
        config.write_text(yaml.safe_dump(self._config()), encoding="utf-8")
        kubeconfig = self._plane.kubeconfig_for(ACCOUNT)
        self._run("scheduler", "--config", str(config), "--kubeconfig", str(kubeconfig))
        places = [f"--socket={self._directory}/place.sock", f"--cert-dir={self._directory}/certs"]
        where = [f"--port={self.webhook_port}", f"--host={LOOPBACK}"]
        self._run("webhook", *places, *where, "--wait-s=60")
        self._wait("scheduler", *SYNCED)
        self._wait("webhook", "Webhook server ready")

    def stop(self) -> None:
        """As the kubelet does: every container gets SIGTERM, and has time to end."""
        for program in self._programs:
            program.stop()
        self._programs = []

    def log(self, name: str) -> str:
        """The log of a program."""
        return (self._directory / f"{name}.log").read_text(errors="replace")

    def _config(self) -> dict[str, Any]:
        told = yaml.safe_load(self._plane.client.get(CONFIG)["data"]["config.yaml"])
        certs = str(self._directory / "certs")
        names = [*told["certificates"]["names"], "localhost"]
        places = {
            "forward": {
                "address": self.address,
                "certDir": certs,
                "caFile": f"{certs}/ca.crt",
                "tokenFile": f"{certs}/token",
            },
            "certificates": {"directory": certs, "names": names},
            "webhook": {"socket": str(self._directory / "place.sock")},
            "healthAddress": f"{LOOPBACK}:{self.health_port}",
            "decisionsAddress": f"{LOOPBACK}:{self._decisions}",
            "leaderElection": LEASE,
            **QUICK,
        }
        return merged(told, places)

    def _run(self, module: str, *words: str) -> None:
        # The tree comes before the environment's own copy of the project.
        command = ["/usr/bin/env", f"PYTHONPATH={self._tree}", sys.executable, "-m", module, *words]
        log = self._directory / f"{module}.log"
        self._programs.append(start(module, command, log=log, home=self._directory))

    def _wait(self, name: str, *lines: str) -> None:
        path = self._directory / f"{name}.log"

        def is_ready() -> bool:
            if not all(each.is_alive() for each in self._programs):
                raise ControlPlaneError(f"{name} ended:\n{tail(path, 40)}")
            return path.exists() and any(line in self.log(name) for line in lines)

        wait_until(is_ready, what=f"{name} to say {lines}", timeout_s=START_S)


def leader_address(plane: ControlPlane) -> str:
    """The forwarding address on the Lease, which both versions write."""
    lease = plane.client.get(LEASE_PATH)
    return str(lease["metadata"].get("annotations", {}).get(LEADER_ADDRESS, ""))


def wait_leads(plane: ControlPlane, *replicas: Replica) -> None:
    """Wait until one of them is the leader."""
    known = {each.address for each in replicas}
    wait_until(lambda: leader_address(plane) in known, what="another leader", timeout_s=START_S)


class Stream:
    """Creates a pod with a GPU every 0.4 s; it lives for a few seconds once bound.

    ``spec`` is the pods' own. A pod that the API server refuses is counted.
    """

    def __init__(self, here: Watcher, live: int, **spec: Any) -> None:
        self._here = here
        self._live = live
        self._spec = spec
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self.created = 0
        self.refused: list[str] = []
        self._bound: list[str] = []

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def wait_more(self, count: int) -> None:
        """Wait until so many pods that do not exist yet are bound."""
        first = self.created
        wait_until(
            lambda: sum(int(name.split("-")[1]) >= first for name in self._bound) >= count,
            what=f"{count} more pods of the stream to be bound",
            timeout_s=180,
        )

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            with contextlib.suppress(ControlPlaneError):
                self._step()

    def _step(self) -> None:
        ours = [item for item in self._here.pods() if item["metadata"]["name"].startswith("s-")]
        done = [item["metadata"]["name"] for item in ours if node_of(item)]
        known = set(self._bound)
        self._bound += [name for name in done if name not in known]
        if len(ours) >= self._live:
            oldest = sorted(done, key=lambda name: int(name.split("-")[1]))[:2]
            for name in oldest:
                self._here.client.delete_if_there(self._here.path("Pod", name))
            return
        try:
            self._here.create(pod(f"s-{self.created}", **self._spec))
            self.created += 1
        except ApiError as error:
            self.refused.append(str(error))
