"""A developer's cluster: it outlives the command that starts it, until ``down`` ends it.

Each has a name and a folder of that name. A process is ended only if its command line names that
folder; the folder is removed only after its programs are gone.
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
    """Start a cluster with fake nodes, unless it runs; say whether it was started now."""
    if state_file(directory).exists():
        plane = ControlPlane.attach(directory)
        if plane.processes:
            return plane, False
    # What is here now is left of a start that failed or of a machine that was switched off.
    shutil.rmtree(directory, ignore_errors=True)
    components = DEFAULT_COMPONENTS | {SCHEDULER}
    plane = ControlPlane.start(directory, components=components, detached=True)
    try:
        names = [f"gpu-{number}" for number in range(nodes)]
        add_nodes(plane.client, [FakeNode(name=name, gpus=gpus) for name in names])
    except BaseException:  # an interrupt too leaves nothing running
        plane.close()
        raise
    return plane, True


def down(directory: Path) -> bool:
    """End a cluster and remove its folder; say whether there was one."""
    if not directory.exists():
        return False
    if state_file(directory).exists():
        ControlPlane.attach(directory).close()
    shutil.rmtree(directory)
    return True


def status(directory: Path) -> tuple[list[str], bool]:
    """Describe a cluster's programs, a line each; say whether all that were started are well."""
    if not state_file(directory).exists():
        return ["not running"], False
    plane = ControlPlane.attach(directory)
    lines: list[str] = []
    for name in START_ORDER:
        pid = plane.processes.get(name)
        word = "ready" if plane.is_ready(name) else "not ready"
        lines.append(f"{name:24} {'not running' if pid is None else f'{pid:>8}  {word}'}")
    return lines, all(plane.is_ready(name) for name in START_ORDER)
