"""The network bridge between this machine and the pods of the real node.

It exists before the control plane starts, because it has the address of the API server and of the
node, and is removed after both. A lock of this process excludes a second real node.
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

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache, try_lock
from tools.realnode.settings import BRIDGE, BRIDGE_ADDRESS

PREFIX: Final = 24
POLL_S: Final = 0.5


@contextmanager
def bridge() -> Iterator[str]:
    """Create the bridge and yield its address; waits for another real node of this machine."""
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
    """Delete the bridge if it exists."""
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        _ip("link", "del", BRIDGE)


def _ip(*words: str) -> None:
    program = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise ControlPlaneError("ip: not found; on Debian and Ubuntu: apt-get install iproute2")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ControlPlaneError(f"ip {' '.join(words)}: {done.stderr.strip()}")
