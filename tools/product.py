"""Runs scheduler and webhook on a control plane as in a cluster, for the demo and the tests.

scheduler   with its ServiceAccount and the roles of ``cluster/rbac*.yaml``
webhook     connected to it over the Unix socket; registered with the API server, over TLS
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
#: The name of the webhook's Service, which the API server expects in its certificate.
WEBHOOK_NAME: Final = f"gpu-scheduler-webhook.{NAMESPACE}.svc"
MANIFESTS: Final = (
    "crd-podmigrations.yaml",
    "crd-migpartitions.yaml",
    "rbac.yaml",
    "rbac-migrations.yaml",
    "rbac-preemption.yaml",
    "admission-policies.yaml",
    "fencing-policy.yaml",
    "preemption-policy.yaml",
    "flow-schemas.yaml",
)
#: The scope of the fallback in cluster/admission-policies.yaml; the chart renders its own.
_SCOPE: Final = """expression: '"ours"'"""
#: The victims of preemption in cluster/fencing-policy.yaml; likewise.
_VICTIMS: Final = """expression: '"own"'"""
START_S: Final = 120.0
#: The log lines of a scheduler after the first election.
SETTLED: Final = ("leading", "another replica is the leader")
CACHES_SYNCED: Final = "caches synced"
WEBHOOK_READY: Final = "Webhook server ready"
#: The defaults, so that a slow machine costs no leadership; a standby looks more often.
LEASE: Final = {"leaseDurationS": 15, "renewDeadlineS": 10, "retryPeriodS": 0.5}
#: Of several replicas of which one is killed.
SHORT_LEASE: Final = {"leaseDurationS": 4, "renewDeadlineS": 3, "retryPeriodS": 0.5}
REGISTRATION_PATH: Final = (
    f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}"
)
LEASE_PATH: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpu-scheduler"


class ProductError(Exception):
    """One of our programs did not start, or ended; the text contains the end of its log."""


class Product:
    """One replica: a scheduler and its webhook, with their own directory.

    ``config`` is merged into the default configuration; ``scope`` also applies to the webhook.
    ``detached`` programs keep running after this process. ``kubeconfig`` replaces the default one
    of the ServiceAccount for the scheduler. With ``log_json`` both logs are JSON objects.
    With ``aggregated`` the webhook serves the aggregated decisions API on ``aggregated_port``; the
    caller creates the APIService and the rights.
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
        log_json: bool = False,
        aggregated: bool = False,
    ) -> None:
        self.plane = plane
        self._log_json = log_json
        self._kubeconfig = kubeconfig
        self.directory = directory
        self.health_port, self.webhook_port, self.decisions_port, self.aggregated_port = free_ports(
            4
        )
        self._aggregated = aggregated
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
                "decisionsApi": {"aggregated": aggregated},
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
        """Apply the manifests, start both programs, and register the webhook.

        When it returns, a leader is elected: this replica or another one. A failed step stops the
        programs that were started.
        """
        try:
            self._start_all(webhook=webhook)
        except BaseException:  # after an interrupt too, no program keeps running
            self.close()
            raise

    def _start_all(self, *, webhook: bool) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        # One command: kubectl reads the API's schemas in each.
        text = "\n---\n".join(map(self._manifest, MANIFESTS))
        self.plane.kubectl("apply", "-f", "-", input=text)
        self._run_scheduler()
        if webhook:
            self._run_webhook()
        self._wait("scheduler", CACHES_SYNCED)
        self._wait("scheduler", *SETTLED)
        if webhook:
            self._wait("webhook", WEBHOOK_READY)
            self.register()

    def _manifest(self, name: str) -> str:
        """A file of ``cluster/``, with the configuration's variables in the admission policies."""
        text = (ROOT / "cluster" / name).read_text(encoding="utf-8")
        text = text.replace(_SCOPE, _SCOPE.replace("ours", self._scope))
        settings = self._config.get("preemption", {})
        victims = settings.get("victims", "own") if settings.get("enabled", True) else "off"
        return text.replace(_VICTIMS, _VICTIMS.replace("own", victims))

    def start_scheduler(self) -> None:
        """Start the scheduler with its ServiceAccount and wait until its caches are filled."""
        self._run_scheduler()
        self._wait("scheduler", CACHES_SYNCED)

    def _run_scheduler(self) -> None:
        path = self.directory / "scheduler.yaml"
        path.write_text(yaml.safe_dump(self._config), encoding="utf-8")
        kubeconfig = self._kubeconfig or self.plane.kubeconfig_for(ACCOUNT)
        words = ["scheduler", "--config", str(path), "--kubeconfig", str(kubeconfig)]
        words += ["--log-json"] if self._log_json else []
        self._start("scheduler", words)

    def start_webhook(self) -> None:
        """Start the webhook and wait until it is ready."""
        self._run_webhook()
        self._wait("webhook", WEBHOOK_READY)

    def _run_webhook(self) -> None:
        certificates = self.directory / "certs"
        certificates.mkdir(exist_ok=True)
        pair = self.plane.serving_certificate("webhook", (LOOPBACK, WEBHOOK_NAME))
        (certificates / "tls.crt").write_bytes(pair.certificate.read_bytes())
        (certificates / "tls.key").write_bytes(pair.key.read_bytes())
        socket = str(self.directory / "place.sock")
        words = ["webhook", "--socket", socket, "--cert-dir", str(certificates)]
        words += ["--log-format", "json"] if self._log_json else []
        words += ["--host", LOOPBACK, "--port", str(self.webhook_port)]
        if self._aggregated:
            words += ["--decisions-port", str(self.aggregated_port)]
        self._start("webhook", words)

    def register(self, port: int | None = None) -> None:
        """Register the webhook with the API server, and wait until it is called.

        ``port`` is the port of a proxy in front of it, if there is one.
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
        # API servers read the configuration through a watch, with a delay.
        wait_until(self._is_called, what="the API server to call the webhook", timeout_s=START_S)

    def unregister(self) -> None:
        """Delete the webhook's registration."""
        self.plane.client.delete_if_there(REGISTRATION_PATH)

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
        """Send SIGKILL to one program, like a crash."""
        self._programs.pop(name).kill()

    def free_lease(self) -> None:
        """Release the lease of a killed leader: the next one need not wait for its expiry."""
        release_lease(self.plane, LEASE_PATH)

    def stop(self, name: str) -> None:
        """Stop one program with SIGTERM, like the kubelet."""
        self._programs.pop(name).stop()

    def close(self) -> None:
        """Unregister the webhook, so that no request waits for it, and stop both programs."""
        if "webhook" in self._programs:
            with contextlib.suppress(ControlPlaneError):  # the API server may have ended
                self.unregister()
        for name in reversed(list(self._programs)):
            self.stop(name)

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the started programs."""
        return {name: program.pid for name, program in self._programs.items()}

    def pid_of(self, name: str) -> int:
        """The process id of a started program."""
        return self._programs[name].pid

    def is_running(self, name: str) -> bool:
        """Whether a program runs."""
        return name in self._programs and self._programs[name].is_alive()

    def log(self, name: str) -> str:
        """The log of a program."""
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


def release_lease(plane: ControlPlane, path: str) -> None:
    """What a leader writes at its end."""
    plane.client.patch(path, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})


def merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration ``base`` with the values of ``over``, merged section by section."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both and isinstance(old, dict) else value
    return result
