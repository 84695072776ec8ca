"""A developer's cluster, which keeps running after ``up`` until ``down``.

Each cluster has a name and a directory of that name. A process is stopped only if its command line
contains that directory; the directory is removed after all programs have ended.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.controlplane.commands import SCHEDULER, START_ORDER
from tools.controlplane.control_plane import DEFAULT_COMPONENTS, ControlPlane
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.fake_nodes import FakeNode, add_nodes
from tools.controlplane.layout import state_file

NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")


def folder(name: str, environ: Mapping[str, str]) -> Path:
    """Return the folder of the cluster with this name."""
    if not NAME.fullmatch(name):
        raise ControlPlaneError(f"--name {name}: use small letters, digits and hyphens")
    base = environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "gpu-scheduler" / "controlplane" / name


def up(directory: Path, *, nodes: int, gpus: int) -> tuple[ControlPlane, bool]:
    """Start a cluster with fake nodes unless it runs; returns whether it was started."""
    if state_file(directory).exists():
        plane = ControlPlane.attach(directory)
        if plane.processes:
            return plane, False
    # These files are left by a failed start or a reboot.
    shutil.rmtree(directory, ignore_errors=True)
    components = DEFAULT_COMPONENTS | {SCHEDULER}
    plane = ControlPlane.start(directory, components=components, detached=True)
    try:
        names = [f"gpu-{number}" for number in range(nodes)]
        add_nodes(plane.client, [FakeNode(name=name, gpus=gpus) for name in names])
    except BaseException:  # after an interrupt too, no program keeps running
        plane.close()
        raise
    return plane, True


def down(directory: Path) -> bool:
    """Stop a cluster and remove its directory; returns whether it existed."""
    if not directory.exists():
        return False
    if state_file(directory).exists():
        ControlPlane.attach(directory).close()
    shutil.rmtree(directory)
    return True


def status(directory: Path) -> tuple[list[str], bool]:
    """A line per program, and whether all started programs are ready."""
    if not state_file(directory).exists():
        return ["not running"], False
    plane = ControlPlane.attach(directory)
    lines: list[str] = []
    for name in START_ORDER:
        pid = plane.processes.get(name)
        word = "ready" if plane.is_ready(name) else "not ready"
        lines.append(f"{name:24} {'not running' if pid is None else f'{pid:>8}  {word}'}")
    return lines, all(plane.is_ready(name) for name in START_ORDER)
