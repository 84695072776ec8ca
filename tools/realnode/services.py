"""Services on the real node: kube-proxy and its rules.

The rules are in the machine's tables and remain after its end, so ``close`` removes them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tools.controlplane.components import is_healthy
from tools.controlplane.control_plane import ControlPlane
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.realnode import firewall, settings
from tools.realnode.sandbox_processes import SandboxProcesses

NAME: Final = "kube-proxy"
USER: Final = "system:kube-proxy"
CLEANUP_S: Final = 60.0
#: The programs that it calls; each is in the Debian package of the same name.
TOOLS: Final = ("iptables", "conntrack")


class Services:
    """One node's kube-proxy."""

    def __init__(
        self, plane: ControlPlane, here: SandboxProcesses, program: Path, config: Path
    ) -> None:
        self._plane = plane
        self._here = here
        self._words = [str(program), f"--config={config}"]
        self._config = config
        self._firewalls: frozenset[str] = frozenset()

    def start(self, node: str) -> None:
        """Start it and wait for its rules."""
        for tool in TOOLS:
            if shutil.which(tool) is None:
                raise ControlPlaneError(
                    f"{tool}: not found; on Debian and Ubuntu: apt-get install {tool}"
                )
        self._firewalls = firewall.found()
        (port,) = free_ports(1)
        kubeconfig = self._plane.kubeconfig_for_user(USER)
        self._config.write_text(settings.proxy(kubeconfig, node, port))
        self._here.spawn(NAME, self._words)
        url, identity = f"http://{LOOPBACK}:{port}/healthz", self._plane.client.identity
        self._here.wait(NAME, lambda: is_healthy(url, identity))

    def close(self) -> None:
        """Stop it and remove its rules."""
        if self._here.has(NAME):
            self._here.end(NAME)
            command = self._here.inside([*self._words, "--cleanup"])
            subprocess.run(command, capture_output=True, timeout=CLEANUP_S, check=False)
            firewall.remove(firewall.found() - self._firewalls)
