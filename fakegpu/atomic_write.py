"""Atomic file replacement: a reader gets the old content or the new one, complete."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, content: bytes, *, survives_power_loss: bool = False) -> None:
    """Write a file; creates its directory if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same directory, because a rename works only within one file system.
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        if survives_power_loss:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)
