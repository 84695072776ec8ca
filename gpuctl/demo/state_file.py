"""A demo that was left running: how to use it, and how it is ended by another command.

A process is only ended if its command line still names the demo's folder; its id alone proves
nothing.
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

from gpuctl.demo.environment import DemoError, Environment
from tools.controlplane import ControlPlane
from tools.controlplane.process import Running

PIDS: Final = "product.json"


def directory() -> Path:
    """Where a demo is kept unless said otherwise."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "gpu-scheduler" / "demo"


def write_down(folder: Path, pids: dict[str, int]) -> None:
    """Remember our own programs; the control plane remembers its own."""
    (folder / PIDS).write_text(json.dumps(pids) + "\n")


def advice(stage: Environment) -> str:
    """What to do with a demo that runs on."""
    found = "kubectl" if shutil.which("kubectl") else str(stage.plane.program("kubectl"))
    kubectl = shlex.quote(found)
    return "\n".join(
        [
            "it runs on; use it like any cluster:",
            f"  export KUBECONFIG={shlex.quote(str(stage.plane.kubeconfig))}",
            f"  {kubectl} get pods -o wide",
            f"  {kubectl} get events",
            f"its logs are in {stage.directory}; end it with:",
            f"  {ending(stage.directory)}",
            "",
        ]
    )


def ending(folder: Path) -> str:
    """The command that ends a demo."""
    us = sys.argv[0] if Path(sys.argv[0]).name == "gpuctl" else "gpuctl"
    words = [us, "demo", "--end"]
    if folder != directory():
        words += ["--directory", str(folder)]
    return shlex.join(words)


def end(folder: Path) -> str:
    """End a demo and remove its folder; says what was done."""
    folder = folder.absolute()
    cluster = folder / "cluster"
    if not cluster.exists():
        raise DemoError(f"{folder}: no demo was left running here")
    pids: dict[str, int] = {}
    with contextlib.suppress(FileNotFoundError):  # it was killed before it could write them down
        pids = json.loads((folder / PIDS).read_text())
    for name, pid in reversed(pids.items()):
        Running(name, pid, str(folder)).stop()
    ControlPlane.attach(cluster).close()
    shutil.rmtree(folder)
    return f"the demo in {folder} has been ended"
