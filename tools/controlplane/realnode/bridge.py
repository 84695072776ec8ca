"""The bridge by which pods of the real node and this machine see each other.

It is made before the control plane starts, since the API server's and the node's address is on it,
and removed after both. Only one can be there at a time: a lock, held by this process, keeps two
real nodes apart.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.controlplane.cache import Cache, try_lock
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.realnode.settings import BRIDGE, BRIDGE_ADDRESS

PREFIX: Final = 24
POLL_S: Final = 0.5


@contextmanager
def bridge() -> Iterator[str]:
    """The bridge's address, while nobody else has a real node on this machine."""
    lock = Cache.of(os.environ).root / "real-node.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        while not try_lock(held.fileno()):
            time.sleep(POLL_S)
        remove()
        _ip("link", "add", BRIDGE, "type", "bridge")
        try:
            _ip("addr", "add", f"{BRIDGE_ADDRESS}/{PREFIX}", "dev", BRIDGE)
            _ip("link", "set", BRIDGE, "up")
            yield BRIDGE_ADDRESS
        finally:
            remove()


def remove() -> None:
    """Take the bridge away, if it is there."""
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        _ip("link", "del", BRIDGE)


def _ip(*words: str) -> None:
    program = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise ControlPlaneError("ip: not found; on Debian and Ubuntu: apt-get install iproute2")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ControlPlaneError(f"ip {' '.join(words)}: {done.stderr.strip()}")
