"""Chooses containerd's snapshotter: overlayfs if this machine can mount it.

The native snapshotter works everywhere, but copies the whole image for every container. Inside of
another container it may be the only choice.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def best_snapshotter(directory: Path) -> str:
    """Return overlayfs if it can be mounted, else native."""
    trial = directory / "overlay-trial"
    folders = {name: trial / name for name in ("lower", "upper", "work", "merged")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={folders['lower']},upperdir={folders['upper']},workdir={folders['work']}"
    words = ["mount", "-t", "overlay", "overlay", "-o", options, str(folders["merged"])]
    can = subprocess.run(words, capture_output=True, check=False).returncode == 0
    if can:
        subprocess.run(["umount", str(folders["merged"])], check=True)
    shutil.rmtree(trial)
    return "overlayfs" if can else "native"
