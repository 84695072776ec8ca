"""The iptables chain that kube-proxy's ``--cleanup`` leaves, because kubelets use it as well.

It drops packets of the machine. A chain that existed before the node belongs to another program.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from typing import Final

CHAIN: Final = "KUBE-FIREWALL"
TOOLS: Final = ("iptables", "ip6tables")
TIMEOUT_S: Final = 30.0


def found() -> frozenset[str]:
    """The iptables variants whose tables contain the chain."""
    return frozenset(tool for tool in TOOLS if _run(tool, "-S", CHAIN))


def remove(tools: Iterable[str]) -> None:
    """Delete the chain from the tables of these variants."""
    for tool in tools:
        for words in _removal():
            _run(tool, *words)


def _removal() -> Iterator[tuple[str, ...]]:
    yield from (("-D", chain, "-j", CHAIN) for chain in ("INPUT", "OUTPUT"))
    yield from ((flag, CHAIN) for flag in ("-F", "-X"))


def _run(tool: str, *words: str) -> bool:
    """Whether the program exists and succeeds."""
    if shutil.which(tool) is None:
        return False
    command = [tool, "--wait", *words]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    return done.returncode == 0
