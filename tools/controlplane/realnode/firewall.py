"""The chain that kube-proxy makes and its ``--cleanup`` leaves, because it may be a kubelet's too.

It drops packets in the machine's own tables. One that was there before the node is somebody else's.
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
    """The tools in whose tables the chain is."""
    return frozenset(tool for tool in TOOLS if _run(tool, "-S", CHAIN))


def remove(tools: Iterable[str]) -> None:
    """Take the chain out of the tables of these tools."""
    for tool in tools:
        for words in _removal():
            _run(tool, *words)


def _removal() -> Iterator[tuple[str, ...]]:
    yield from (("-D", chain, "-j", CHAIN) for chain in ("INPUT", "OUTPUT"))
    yield from ((flag, CHAIN) for flag in ("-F", "-X"))


def _run(tool: str, *words: str) -> bool:
    """Whether it is there and said yes."""
    if shutil.which(tool) is None:
        return False
    command = [tool, "--wait", *words]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    return done.returncode == 0
