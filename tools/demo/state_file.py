"""A demo that ``--keep`` left running: its process ids, and its end by another process.

A process is only stopped if its command line contains the demo's directory, because its id may
belong to another program since.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from tools.controlplane import ControlPlane
from tools.controlplane.process import Running
from tools.demo.environment import DemoError

PIDS: Final = "product.json"


def directory() -> Path:
    """The default directory of a demo with ``--keep``."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "gpu-scheduler" / "demo"


def write_down(folder: Path, pids: dict[str, int]) -> None:
    """Save the process ids of our programs; the control plane saves its own."""
    (folder / PIDS).write_text(json.dumps(pids) + "\n")


def gpuctl() -> str:
    """The program, as this user's shell finds it."""
    return "gpuctl" if shutil.which("gpuctl") else str(Path(sys.executable).with_name("gpuctl"))


def ending(folder: Path) -> str:
    """The command that stops a demo."""
    words = [gpuctl(), "demo", "--end"]
    if folder != directory():
        words += ["--directory", str(folder)]
    return shlex.join(words)


def end(folder: Path) -> str:
    """Stop a demo, remove its directory, and return a report."""
    folder = folder.absolute()
    cluster = folder / "cluster"
    if not cluster.exists():
        raise DemoError(f"{folder}: no demo was left running here")
    pids: dict[str, int] = {}
    with contextlib.suppress(FileNotFoundError):  # it was killed before it saved them
        pids = json.loads((folder / PIDS).read_text())
    for name, pid in reversed(pids.items()):
        Running(name, pid, str(folder)).stop()
    ControlPlane.attach(cluster).close()
    shutil.rmtree(folder)
    return f"the demo in {folder} has been stopped"
