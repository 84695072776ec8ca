"""The parts of one ArgoCD: their command lines, environment and settings objects.

Pure except for ``furnish`` and the search for programs. One program runs as three parts, selected
by its name. All listen on the loopback interface, except for the metrics of the application
controller, whose address is fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.programs.binaries import ensure
from tools.controlplane.programs.go_program import ensure_go_program
from tools.controlplane.programs.sources import ensure_source_folder
from tools.controlplane.programs.versions import program

NAMESPACE: Final = "argocd"
KINDS: Final = tuple(
    f"{name}.argoproj.io" for name in ("applications", "applicationsets", "appprojects")
)
REDIS: Final = "redis"
REPO_SERVER: Final = "argocd-repo-server"
CONTROLLER: Final = "argocd-application-controller"
SETS_CONTROLLER: Final = "argocd-applicationset-controller"
#: The part that checks signatures, which we do not use.
VERIFIER: Final = "git-verify-wrapper.sh"


@dataclass(frozen=True, slots=True)
class Ports:
    """The port of each listener."""

    redis: int
    repo: int
    repo_health: int
    controller_health: int
    sets_metrics: int
    sets_webhook: int


@dataclass(frozen=True, slots=True)
class Place:
    """The directory, the ports and the cluster of one ArgoCD."""

    directory: Path
    kubeconfig: Path
    ports: Ports

    @classmethod
    def choose(cls, directory: Path, kubeconfig: Path) -> Place:
        """Choose free ports."""
        return cls(directory, kubeconfig, Ports(*free_ports(6)))

    @property
    def programs(self) -> Path:
        """The directory with the parts' programs, for PATH."""
        return self.directory / "bin"

    def log(self, name: str) -> Path:
        """The log of one part."""
        return self.directory / "logs" / f"{name}.log"


@dataclass(frozen=True, slots=True)
class Part:
    """One process: its flags, and the port and path of its readiness check."""

    name: str
    flags: Callable[[Place], list[str]]
    health: Callable[[Place], int]
    health_path: str | None = "/healthz"


def command(part: Part, place: Place) -> list[str]:
    """The whole command line: the environment first, since each part reads it."""
    variables = [f"{name}={value}" for name, value in environment(place).items()]
    return ["/usr/bin/env", *variables, str(place.programs / part.name), *part.flags(place)]


def environment(place: Place) -> dict[str, str]:
    """Directories that replace ArgoCD's fixed paths."""
    return {
        "PATH": f"{place.programs}:/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": str(place.directory / "tmp"),
        "KUBECONFIG": str(place.kubeconfig),
        "ARGOCD_FAKE_IN_CLUSTER": "true",
        "ARGOCD_GPG_ENABLED": "false",
        "ARGOCD_GNUPGHOME": str(place.directory / "gnupg"),
        "ARGOCD_ASK_PASS_SOCK": str(place.directory / "ask-pass.sock"),
        "ARGOCD_TLS_DATA_PATH": str(place.directory / "tls"),
        "ARGOCD_SSH_DATA_PATH": str(place.directory / "ssh"),
    }


def _redis(place: Place) -> list[str]:
    return [f"{LOOPBACK}:{place.ports.redis}"]


def _repo_server(place: Place) -> list[str]:
    return [
        f"--address={LOOPBACK}",
        f"--port={place.ports.repo}",
        f"--metrics-address={LOOPBACK}",
        f"--metrics-port={place.ports.repo_health}",
        f"--redis={LOOPBACK}:{place.ports.redis}",
        "--disable-tls",
        "--client-ca-path=",
        "--logformat=text",
    ]


def _client(place: Place) -> list[str]:
    return [
        f"--kubeconfig={place.kubeconfig}",
        f"--namespace={NAMESPACE}",
        "--repo-server-plaintext",
        "--logformat=text",
    ]


def _controller(place: Place) -> list[str]:
    return [
        *_client(place),
        f"--repo-server={LOOPBACK}:{place.ports.repo}",
        f"--redis={LOOPBACK}:{place.ports.redis}",
        f"--metrics-port={place.ports.controller_health}",
    ]


def _sets_controller(place: Place) -> list[str]:
    return [
        *_client(place),
        f"--argocd-repo-server={LOOPBACK}:{place.ports.repo}",
        f"--metrics-addr={LOOPBACK}:{place.ports.sets_metrics}",
        "--probe-addr=0",  # its health page is empty
        f"--webhook-addr={LOOPBACK}:{place.ports.sets_webhook}",
    ]


#: In start order.
PARTS: Final = (
    Part(REDIS, _redis, lambda place: place.ports.redis, health_path=None),
    Part(REPO_SERVER, _repo_server, lambda place: place.ports.repo_health),
    Part(CONTROLLER, _controller, lambda place: place.ports.controller_health),
    Part(SETS_CONTROLLER, _sets_controller, lambda place: place.ports.sets_metrics, "/metrics"),
)


def kinds() -> list[Path]:
    """The manifests of ArgoCD's CRDs in the pinned version."""
    folder = ensure_source_folder(program("argocd"), "manifests/crds")
    return sorted(folder.glob("*-crd.yaml"))


def furnish(place: Place) -> None:
    """Create the directories, and links to the programs by part."""
    for name in ("bin", "logs", "tmp", "gnupg", "tls", "ssh"):
        (place.directory / name).mkdir(parents=True, exist_ok=True)
    (place.directory / "gnupg").chmod(0o700)
    found = ensure(("argocd", "helm"))
    targets = dict.fromkeys((REPO_SERVER, CONTROLLER, SETS_CONTROLLER, "argocd"), found["argocd"])
    targets |= {"helm": found["helm"], REDIS: ensure_go_program(Path(__file__).parent / REDIS)}
    for name, target in targets.items():
        (place.programs / name).symlink_to(target)
    verifier = place.programs / VERIFIER
    verifier.write_text("#!/bin/sh\nexit 0\n")
    verifier.chmod(0o755)


def objects() -> dict[str, Any]:
    """Its namespace and empty settings."""
    names = [f"argocd-{name}" for name in ("cm", "rbac-cm", "ssh-known-hosts-cm", "tls-certs-cm")]
    maps = [_object("ConfigMap", name) for name in (*names, "argocd-gpg-keys-cm")]
    secret = _object("Secret", "argocd-secret") | {"stringData": {"server.secretkey": "for tests"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return {"apiVersion": "v1", "kind": "List", "items": [namespace, *maps, secret]}


def _object(kind: str, name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/part-of": "argocd"}
    meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta}
