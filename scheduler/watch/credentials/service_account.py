"""The API server and the credentials that the kubelet gives to a pod (client-go: InClusterConfig).

The environment has the server's address, a mounted folder the token and the authority.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from scheduler.watch.credentials.authorization import TokenFile
from scheduler.watch.credentials.errors import NoCluster, unreadable

HOST: Final = "KUBERNETES_SERVICE_HOST"
PORT: Final = "KUBERNETES_SERVICE_PORT"
FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_WHERE: Final = "the pod's ServiceAccount"


class ServiceAccount(msgspec.Struct, frozen=True):
    """What the pod has: the server's URL, its token and the TLS settings."""

    url: str
    token: TokenFile
    tls: ssl.SSLContext


def read(environment: Mapping[str, str], folder: Path = FOLDER) -> ServiceAccount:
    """Read all of it; NoCluster names the file or the variable that is missing."""
    host, port = environment.get(HOST, ""), environment.get(PORT, "")
    for name, value in ((HOST, host), (PORT, port)):
        if not value:
            raise NoCluster(f"{_WHERE}: the variable {name} is empty")
    token = TokenFile(folder / "token")
    authority = folder / "ca.crt"
    try:
        if not token.read():
            raise NoCluster(f"{_WHERE}: {folder / 'token'}: is empty")
    except OSError as error:
        raise unreadable(_WHERE, folder / "token", error) from error
    except UnicodeError as error:
        raise NoCluster(f"{_WHERE}: {folder / 'token'}: is no token") from error
    try:
        tls = ssl.create_default_context(cafile=str(authority))
    except ssl.SSLError as error:
        raise NoCluster(f"{_WHERE}: {authority}: has no certificate in PEM") from error
    except OSError as error:
        raise unreadable(_WHERE, authority, error) from error
    bracketed = f"[{host}]" if ":" in host else host
    return ServiceAccount(f"https://{bracketed}:{port}", token, tls)
