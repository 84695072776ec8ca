"""The files and the ports of one control plane.

``state.json`` records them, so that another process (``down``, ``status``) can attach. The
directory is never shared between control planes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.ports import LOOPBACK, free_ports

STAGES = Path(__file__).parents[2] / "cluster" / "kwok-stages.yaml"


@dataclass(frozen=True, slots=True)
class Ports:
    """The port of each listener."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int
    kwok: int

    @classmethod
    def choose(cls) -> Ports:
        """Choose free ports."""
        return cls(*free_ports(6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The caller's options."""

    #: The address of the API server.
    address: str = LOOPBACK
    api_server_flags: tuple[str, ...] = ()
    #: More flags by program; they come last and override the others.
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    disable_admission: tuple[str, ...] = ()
    audit: bool = False
    detached: bool = False

    def flags_of(self, name: str) -> tuple[str, ...]:
        """Return the caller's flags for a program."""
        return tuple(self.flags.get(name, ()))


@dataclass(frozen=True, slots=True)
class Layout:
    """The files below one directory, and the ports."""

    directory: Path
    ports: Ports
    address: str = LOOPBACK

    @property
    def api_url(self) -> str:
        """The URL of the API server."""
        return f"https://{self.address}:{self.ports.api_server}"

    @property
    def certificates(self) -> Path:
        """The folder of certificates and keys."""
        return self.directory / "pki"

    @property
    def front_proxy(self) -> Path:
        """The folder of the front proxy's authority and certificate."""
        return self.certificates / "front-proxy"

    @property
    def etcd_data(self) -> Path:
        """The data directory of etcd."""
        return self.directory / "etcd"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, if it is enabled."""
        return self.directory / "audit.log"

    @property
    def audit_policy(self) -> Path:
        """The audit policy."""
        return self.directory / "audit-policy.json"

    def kubeconfig(self, name: str) -> Path:
        """The kubeconfig of one user."""
        return self.directory / f"{name}.kubeconfig"

    def log(self, name: str) -> Path:
        """The log of one program."""
        return self.directory / "logs" / f"{name}.log"

    def make(self) -> None:
        """Create the folders."""
        for folder in (self.directory / "logs", self.certificates):
            folder.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)


def state_file(directory: Path) -> Path:
    """The path of ``state.json``."""
    return directory / "state.json"


def write_state(layout: Layout, options: Options, pids: dict[str, int]) -> None:
    """Write ports, options and processes atomically."""
    state = {"ports": asdict(layout.ports), "options": asdict(options), "pids": pids}
    path = state_file(layout.directory)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(state, indent=2) + "\n")
    fresh.replace(path)


def read_state(directory: Path) -> tuple[Layout, Options, dict[str, int]]:
    """Read what ``write_state`` wrote."""
    path = state_file(directory)
    try:
        state: dict[str, Any] = json.loads(path.read_text())
        options = Options(**state["options"])
        layout = Layout(directory, Ports(**state["ports"]), options.address)
        return layout, options, dict(state["pids"])
    except FileNotFoundError:
        raise ControlPlaneError(f"{directory}: no control plane was started here") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ControlPlaneError(f"{path}: not readable ({error}); remove the folder") from error
