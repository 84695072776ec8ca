"""Removes the cgroups that a kubelet leaves behind.

They are empty after the end of the containers. The kernel does not remove a cgroup with a process.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")


def remove(name: str, root: Path = ROOT) -> None:
    """Remove a tree of empty cgroups, in every hierarchy."""
    for tree in (root / name, *root.glob(f"*/{name}")):
        if tree.is_dir():
            folders = [path for path in tree.rglob("*") if path.is_dir()]
            for folder in (*sorted(folders, key=lambda one: -len(one.parts)), tree):
                with contextlib.suppress(OSError):
                    folder.rmdir()
