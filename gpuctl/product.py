"""The product's own two programs on a control plane, as they run in a cluster.

    scheduler   as its ServiceAccount, with exactly the roles of ``cluster/rbac*.yaml``
    webhook     beside it, over the Unix socket; registered for real, over TLS

The demo shows it, the tests try it: one way to start, so that both mean the same thing.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tools.controlplane import ControlPlane, ControlPlaneError, wait_until
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.process import Running, put_aside, start, tail
from webhook.webhook_configuration import NAME, webhook_configuration

ROOT: Final = Path(__file__).resolve().parent.parent
NAMESPACE: Final = "gpu-scheduler-system"
ACCOUNT: Final = f"{NAMESPACE}/gpu-scheduler"
MANIFESTS: Final = (
    "crd-migrules.yaml",
    "crd-migcuts.yaml",
    "rbac.yaml",
    "rbac-moves.yaml",
    "admission-policies.yaml",
    "fencing-policy.yaml",
    "flow-schemas.yaml",
)
#: As cluster/admission-policies.yaml has the scope of the fallback; the chart renders its own.
_SCOPE: Final = """expression: '"ours"'"""
START_S: Final = 60.0
#: What a scheduler says once it is clear whether it decides.
SETTLED: Final = ("leading", "another replica leads")
#: Short enough that a takeover does not hold up a demo or a test.
LEASE: Final = {"leaseDurationS": 4, "renewDeadlineS": 3, "retryPeriodS": 0.5}


class ProductError(Exception):
    """One of our programs did not start, or ended; the text holds the end of its log."""


class Product:
    """One replica: a scheduler and the webhook beside it, in a directory of their own.

    ``config`` is merged over the demo's configuration file; ``scope`` is also the webhook's.
    Programs that are ``detached`` outlive this process. ``kubeconfig`` is another way to the
    API server for the scheduler than the plain one of its ServiceAccount.
    """

    def __init__(
        self,
        plane: ControlPlane,
        directory: Path,
        *,
        config: Mapping[str, Any] | None = None,
        scope: str = "ours",
        detached: bool = False,
        kubeconfig: Path | None = None,
    ) -> None:
        self.plane = plane
        self._kubeconfig = kubeconfig
        self.directory = directory
        self.health_port, self.webhook_port, self.decisions_port = free_ports(3)
        self._scope = scope
        self._leashed = not detached
        self._config = merged(
            {
                "apiVersion": "gpu-scheduler.io/v1",
                "kind": "GpuSchedulerConfiguration",
                "maps": {"allow": "all"},
                "fallback": {"scope": scope},
                "leaderElection": LEASE,
                "webhook": {"socket": str(directory / "place.sock")},
                "healthAddress": f"{LOOPBACK}:{self.health_port}",
                "decisionsAddress": f"{LOOPBACK}:{self.decisions_port}",
            },
            config or {},
        )
        self._programs: dict[str, Running] = {}

    def __enter__(self) -> Product:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, *, webhook: bool = True) -> None:
        """Apply the manifests, start both programs, register the webhook once it answers.

        The first pod already meets a scheduler that decides, here or in another replica.
        Where a step fails, those before it are undone.
        """
        try:
            self._start_all(webhook=webhook)
        except BaseException:  # an interrupt too leaves nothing running
            self.close()
            raise

    def _start_all(self, *, webhook: bool) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in MANIFESTS:
            self.plane.kubectl("apply", "-f", "-", input=self._manifest(name))
        self.start_scheduler()
        self._wait("scheduler", *SETTLED)
        if webhook:
            self.start_webhook()
            self.register()

    def _manifest(self, name: str) -> str:
        """A file of ``cluster/``; the policy on annotations has to know the webhook's scope."""
        text = (ROOT / "cluster" / name).read_text(encoding="utf-8")
        return text.replace(_SCOPE, _SCOPE.replace("ours", self._scope))

    def start_scheduler(self) -> None:
        """Start the scheduler as its ServiceAccount; returns when its caches are filled."""
        path = self.directory / "scheduler.yaml"
        path.write_text(yaml.safe_dump(self._config), encoding="utf-8")
        kubeconfig = self._kubeconfig or self.plane.kubeconfig_for(ACCOUNT)
        words = ["scheduler", "--config", str(path), "--kubeconfig", str(kubeconfig)]
        self._start("scheduler", words)
        self._wait("scheduler", "caches filled")

    def start_webhook(self) -> None:
        """Start the webhook; returns when it answers."""
        certificates = self.directory / "certs"
        certificates.mkdir(exist_ok=True)
        pair = self.plane.serving_certificate("webhook")
        (certificates / "tls.crt").write_bytes(pair.certificate.read_bytes())
        (certificates / "tls.key").write_bytes(pair.key.read_bytes())
        socket = str(self.directory / "place.sock")
        words = ["webhook", "--socket", socket, "--cert-dir", str(certificates)]
        self._start("webhook", [*words, "--host", LOOPBACK, "--port", str(self.webhook_port)])
        self._wait("webhook", "Webhook server ready")

    def register(self, port: int | None = None) -> None:
        """Register the webhook with the API server, and wait until it is really called.

        ``port`` is where the API server reaches it, if something stands in between.
        """
        scope: Any = self._scope
        body = webhook_configuration(
            ca_bundle=self.plane.ca_certificate.read_bytes(),
            scheduler_name="gpu-scheduler",
            own_namespace=NAMESPACE,
            url=f"https://{LOOPBACK}:{port or self.webhook_port}",
            scope=scope,
        )
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(body))
        # API servers learn of a configuration through a watch of their own.
        wait_until(self._is_called, what="the API server to call the webhook", timeout_s=START_S)

    def unregister(self) -> None:
        """Take the webhook out of the API server's way."""
        self.plane.kubectl("delete", "mutatingwebhookconfiguration", NAME, "--ignore-not-found")

    def _is_called(self) -> bool:
        probe = {
            "metadata": {
                "name": "probe-0",
                "annotations": {"gpu-scheduling-map": "0=nowhere:0"},
            },
            "spec": {
                "schedulerName": "gpu-scheduler",
                "containers": [{"name": "probe", "image": "probe"}],
            },
        }
        answer = self.plane.client.create("/api/v1/namespaces/default/pods?dryRun=All", probe)
        return "CUDA_VISIBLE_DEVICES" in json.dumps(answer)

    def kill(self, name: str) -> None:
        """End one program as a crash would."""
        self._programs.pop(name).kill()

    def stop(self, name: str) -> None:
        """End one program as the kubelet would."""
        self._programs.pop(name).stop()

    def close(self) -> None:
        """End both programs, and unregister the webhook first so that it is missed by nobody."""
        if "webhook" in self._programs:
            with contextlib.suppress(ControlPlaneError):  # the API server may be what has ended
                self.unregister()
        for name in reversed(list(self._programs)):
            self.stop(name)

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of what was started."""
        return {name: program.pid for name, program in self._programs.items()}

    def pid_of(self, name: str) -> int:
        """The process id of one program, which was started and not ended by us since."""
        return self._programs[name].pid

    def is_running(self, name: str) -> bool:
        """Whether one program lives."""
        return name in self._programs and self._programs[name].is_alive()

    def log(self, name: str) -> str:
        """All that one program has said."""
        return self._log_path(name).read_text(errors="replace")

    def _log_path(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _start(self, name: str, words: list[str]) -> None:
        command = [sys.executable, "-m", *words]
        log = self._log_path(name)
        put_aside(log)
        self._programs[name] = start(
            name, command, log=log, home=self.directory, dies_with_parent=self._leashed
        )

    def _wait(self, name: str, *lines: str) -> None:
        def is_ready() -> bool:
            if not self.is_running(name):
                raise ProductError(f"{name} ended:\n{tail(self._log_path(name))}")
            said = self.log(name)
            return any(line in said for line in lines)

        wait_until(is_ready, what=f"{name} to say {' or '.join(lines)}", timeout_s=START_S)


def merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with another one over it, section by section."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both and isinstance(old, dict) else value
    return result
