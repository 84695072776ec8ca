"""A real Kueue: its manager as a process on the loopback interface, beside a control plane.

It runs with the rights of its own manifests. Its certificates are ours, from the Secret where it
keeps them, because the API server reaches its webhooks by address and not by a Service.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa

from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.components import is_healthy
from tools.controlplane.errors import ProcessDied
from tools.controlplane.pki import Authority, Pair
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.process import Running, start, tail
from tools.controlplane.programs.binaries import ensure
from tools.controlplane.programs.sources import ensure_source_folder
from tools.controlplane.programs.versions import program

Json = dict[str, Any]

NAMESPACE: Final = "kueue-system"
ACCOUNT: Final = f"{NAMESPACE}/controller-manager"
SERVICE: Final = "kueue-webhook-service"
SECRET: Final = "kueue-webhook-server-cert"
#: The kinds that its manifests convert by a webhook.
CONVERTED: Final = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
FRAMEWORKS: Final = ("batch/job", "pod", "deployment", "statefulset")
READY_S: Final = 120.0


class Kueue:
    """A running manager; made by ``start``."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._plane = plane
        self._directory = directory
        self._health, self._webhook = free_ports(2)
        self._running: Running | None = None

    @classmethod
    def start(cls, plane: ControlPlane, directory: Path) -> Kueue:
        """Install it, start it, and wait until the API server calls its webhooks."""
        kueue = cls(plane, directory)
        try:
            kueue._begin()
        except BaseException:  # after an interrupt too, it does not keep running
            kueue.close()
            raise
        return kueue

    def __enter__(self) -> Kueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop it."""
        if self._running is not None:
            self._running.stop()

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self._running is not None and self._running.is_alive()

    @property
    def log(self) -> Path:
        """Its log."""
        return self._directory / "kueue.log"

    def _begin(self) -> None:
        # It reads the authority's key as an RSA key, whether or not it signs with it.
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        authority = Authority(self._directory / "authority", hosts=("kueue-ca",), new_key=key)
        pair = authority.server("kueue", (LOOPBACK, f"{SERVICE}.{NAMESPACE}.svc"))
        certificates = self._directory / "certificates"
        certificates.mkdir()
        for name, path in zip(("tls.crt", "tls.key"), pair, strict=True):
            (certificates / name).write_bytes(path.read_bytes())
        self._apply([{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}}])
        self._apply([_secret(authority.files, pair), *_rights(), *self._kinds()])
        self._apply(self._webhooks())
        config = self._directory / "config.yaml"
        config.write_text(yaml.safe_dump(self._config(certificates)), encoding="utf-8")
        kubeconfig = self._plane.kubeconfig_for(ACCOUNT)
        words = [
            str(ensure(["kueue"])["kueue"]),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
        ]
        self._running = start("kueue", words, log=self.log, home=self._directory)
        wait_until(self._is_ready, what=f"Kueue to be ready; see {self.log}", timeout_s=READY_S)

    def _apply(self, objects: list[Json]) -> None:
        body = {"apiVersion": "v1", "kind": "List", "items": objects}
        self._plane.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(body))

    def _config(self, certificates: Path) -> Json:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"{LOOPBACK}:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": LOOPBACK, "port": self._webhook, "certDir": str(certificates)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {
                "enable": True,
                "webhookServiceName": SERVICE,
                "webhookSecretName": SECRET,
            },
            "featureGates": {"VisibilityOnDemand": False},  # a server on all addresses
            "integrations": {"frameworks": list(FRAMEWORKS)},
        }

    def _kinds(self) -> list[Json]:
        found = []
        for kind in _documents("config/components/crd/bases"):
            if kind["spec"]["names"]["plural"] in CONVERTED:
                kind["spec"]["conversion"] = {
                    "strategy": "Webhook",
                    "webhook": {
                        "clientConfig": {"url": self._url("/convert")},
                        "conversionReviewVersions": ["v1"],
                    },
                }
            found.append(kind)
        return found

    def _webhooks(self) -> list[Json]:
        found = []
        for item in _documents("config/components/webhook"):
            if not item["kind"].endswith("WebhookConfiguration"):
                continue
            item["metadata"]["name"] = f"kueue-{item['metadata']['name']}"
            for webhook in item["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": self._url(path)}
            found.append(item)
        return found

    def _url(self, path: str) -> str:
        return f"https://{LOOPBACK}:{self._webhook}{path}"

    def _is_ready(self) -> bool:
        if not self.is_running:
            raise ProcessDied("kueue", tail(self.log), str(self.log))
        url = f"http://{LOOPBACK}:{self._health}/readyz"
        return is_healthy(url, self._plane.client.identity)


def _documents(folder: str) -> list[Json]:
    """The objects in the manifests of one folder of its source."""
    found = ensure_source_folder(program("kueue"), folder)
    texts = (path.read_text(encoding="utf-8") for path in sorted(found.glob("*.yaml")))
    return [one for text in texts for one in yaml.safe_load_all(text) if one and "kind" in one]


def _rights() -> list[Json]:
    """Those of the manager, with the names that its kustomization gives."""
    wanted = ("manager-role", "manager-secrets-role", "controller-manager")
    found = [
        one
        for one in _documents("config/components/rbac")
        if (one.get("roleRef") or one.get("metadata", {})).get("name") in wanted
    ]
    text = json.dumps(found).replace('"namespace": "system"', f'"namespace": "{NAMESPACE}"')
    for way in ("mutating", "validating"):
        name = f"{way}-webhook-configuration"
        text = text.replace(f'"{name}"', f'"kueue-{name}"')
    rights: list[Json] = json.loads(text)
    return rights


def _secret(authority: Pair, pair: Pair) -> Json:
    files = dict(zip(("ca.crt", "ca.key", "tls.crt", "tls.key"), (*authority, *pair), strict=True))
    data = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    meta = {"name": SECRET, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
