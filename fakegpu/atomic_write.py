"""Files that others read while they are written: they find the old one or the new one, whole."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, content: bytes, *, survives_power_loss: bool = False) -> None:
    """Make a file say this; its folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, as a file cannot be renamed from one file system to another.
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        if survives_power_loss:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)
