"""A user's credentials for the API server: a client certificate or a bearer token.

An identity becomes a kubeconfig for programs, or a client in this process. Kubeconfigs embed their
certificates, so that they can be copied.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.pki import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """An API server, its certificate authority, and the credentials."""

    server: str
    authority: Path
    certificate: Pair | None = None
    token: str | None = None
    namespace: str = "default"

    def kubeconfig(self) -> str:
        """Return a kubeconfig in JSON, which is valid YAML."""
        cluster = {
            "server": self.server,
            "certificate-authority-data": _encode(self.authority),
        }
        context = {"cluster": "gpu-scheduler", "user": "user", "namespace": self.namespace}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "gpu-scheduler", "cluster": cluster}],
            "users": [{"name": "user", "user": self._user()}],
            "contexts": [{"name": "gpu-scheduler", "context": context}],
            "current-context": "gpu-scheduler",
        }
        return json.dumps(document, indent=2) + "\n"

    def _user(self) -> dict[str, str]:
        if self.certificate is None:
            return {"token": self.token or ""}
        return {
            "client-certificate-data": _encode(self.certificate.certificate),
            "client-key-data": _encode(self.certificate.key),
        }

    def write_kubeconfig(self, path: Path) -> Path:
        """Write the kubeconfig with mode 0600."""
        path.touch(mode=0o600)
        path.write_text(self.kubeconfig())
        return path


def _encode(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
