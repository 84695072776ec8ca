"""Our chart on the real API server: helm installs it, and its two containers run as processes.

No kubelet runs here, so the pod's two processes are started from what the release says: the
ConfigMap's file, the ServiceAccount's rights. Only places differ: folders for volumes, the
loopback interface for the Service, and ``localhost`` among the certificate's names.
"""

from __future__ import annotations

import base64
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler.controllers.certificates.issuer import make_certificates
from scheduler.controllers.certificates.rotator import PARTS, CertSecret, write_files
from tools.charts.copies import SCHEDULER
from tools.charts.helm import HELMS, helm
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.process import Running, put_aside, start
from tools.product import LEASE, START_S, Product, merged

NAME: Final = "gpu-scheduler"
NAMESPACE: Final = "gpu-scheduler-system"
REGISTRATION: Final = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpu-scheduler-webhook"
)
SECRET: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/gpu-scheduler-webhook-tls"
CONFIG: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/gpu-scheduler-config"


class Release:
    """The release, and the processes of one replica; ``by`` is the helm that is used."""

    def __init__(self, plane: ControlPlane, directory: Path, *, by: str = HELMS[0]) -> None:
        self.plane = plane
        self._by = by
        self._directory = directory
        self._webhook: Running | None = None
        self._product: Product | None = None
        self._services: list[Any] = []

    def __exit__(self, problem: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if problem is not None:  # the next test installs its own
            self.helm("uninstall", NAME, "--wait", "--ignore-not-found")

    def __enter__(self) -> Release:
        return self

    def helm(self, *words: str | Path) -> str:
        """One command on this release's namespace."""
        where = ("--namespace", NAMESPACE)
        return helm(*words, *where, kubeconfig=self.plane.kubeconfig, by=self._by)

    def install(self, *words: str, chart: Path = SCHEDULER) -> None:
        """As in the README."""
        self.helm("install", NAME, chart, "--create-namespace", *words)

    def upgrade(self, *words: str, chart: Path = SCHEDULER) -> None:
        """The same chart with other values, or another one."""
        self.helm("upgrade", NAME, chart, *words)

    def start(self) -> None:
        """Both processes, as the pod would start them; returns when both are ready."""
        self.start_webhook()
        self.start_scheduler()
        wait_until(
            lambda: "Webhook server ready" in self.log("webhook"),
            what="the webhook to be ready",
            timeout_s=START_S,
        )

    def start_scheduler(self) -> None:
        """The scheduler, by the release's own configuration and rights."""
        told = yaml.safe_load(self.plane.client.get(CONFIG)["data"]["config.yaml"])
        places: dict[str, Any] = {
            "forward": {"address": ""},
            "webhook": {"socket": str(self.socket)},
            "leaderElection": LEASE,
        }
        if "registration" in told.get("certificates", {}):
            del told["certificates"]
            self._certificate_of_the_former_scheduler()
        elif "certificates" in told:
            names = [*told["certificates"]["names"], "localhost"]
            places["certificates"] = {"directory": str(self.certs), "names": names}
        del told["healthAddress"]
        self._product = Product(self.plane, self._directory, config=merged(told, places))
        self._product.start_scheduler()

    def _certificate_of_the_former_scheduler(self) -> None:
        """Before decision 0025 the scheduler founded each certificate's authority and registered
        it. That program is gone; what it left behind is laid here."""
        made = make_certificates(["localhost"], [], 1, now=datetime.now(UTC))
        kept = CertSecret(
            ca=made.ca_pem, certificate=made.cert_pem, key=made.key_pem, token=b"token"
        )
        write_files(self.certs, kept)
        data = {
            name: base64.b64encode(getattr(kept, part)).decode() for name, part in PARTS.items()
        }
        self.plane.client.patch(SECRET, {"data": data})
        patch = [
            {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": bundle}
            for bundle in [data["ca.crt"]]
            for number, _ in enumerate(self.registration()["webhooks"])
        ]
        words = ["mutatingwebhookconfiguration", "gpu-scheduler-webhook", "--type=json"]
        self.plane.kubectl("patch", *words, f"--patch={json.dumps(patch)}")

    def stop_scheduler(self) -> None:
        """End it as the kubelet would."""
        if self._product is not None:
            self._product.stop("scheduler")
            self._product = None

    def stop(self) -> None:
        """End both."""
        self.stop_scheduler()
        if self._webhook is not None:
            self._webhook.stop()
            self._webhook = None

    def reach(self) -> None:
        """Puts the process in the Service's place; the CA stays that of the release."""
        entries = self.registration()["webhooks"]
        self._services = [entry["clientConfig"]["service"] for entry in entries]
        address = f"https://localhost:{self._port}"
        self._swap("service", "url", [address + each["path"] for each in self._services])

    def reach_no_more(self) -> None:
        """As helm made it."""
        self._swap("url", "service", self._services)

    def _swap(self, old: str, new: str, values: list[Any]) -> None:
        patch: list[Any] = []
        for number, value in enumerate(values):
            at = f"/webhooks/{number}/clientConfig"
            patch.append({"op": "remove", "path": f"{at}/{old}"})
            patch.append({"op": "add", "path": f"{at}/{new}", "value": value})
        name = "gpu-scheduler-webhook"
        words = ["mutatingwebhookconfiguration", name, "--type=json"]
        self.plane.kubectl("patch", *words, f"--patch={json.dumps(patch)}")

    def registration(self) -> Any:
        """As the API server has it."""
        return self.plane.client.get(REGISTRATION)

    def bundles(self) -> set[str]:
        """The CA bundles that the API server trusts."""
        return {
            entry["clientConfig"].get("caBundle", "") for entry in self.registration()["webhooks"]
        }

    def log(self, name: str) -> str:
        """The whole log of a process."""
        return (self._directory / f"{name}.log").read_text(errors="replace")

    @property
    def certs(self) -> Path:
        """Where the pod's memory volume has them."""
        return self._directory / "certs"

    @property
    def socket(self) -> Path:
        """The same of the socket."""
        return self._directory / "place.sock"

    def start_webhook(self) -> None:
        """The webhook alone, with what lies in ``certs``."""
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._port,) = free_ports(1)
        put_aside(self._directory / "webhook.log")
        words = [
            f"--socket={self.socket}",
            f"--cert-dir={self.certs}",
            f"--port={self._port}",
            f"--host={LOOPBACK}",
            "--wait-s=60",
        ]
        self._webhook = start(
            "webhook",
            [sys.executable, "-m", "webhook", *words],
            log=self._directory / "webhook.log",
            home=self._directory,
        )
