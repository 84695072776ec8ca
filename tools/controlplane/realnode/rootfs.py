"""What goes into the images: programs of this machine with the libraries that they need.

The libraries are found by asking the dynamic linker, so an image holds exactly what its programs
load, at the places where they look for it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.controlplane.errors import ControlPlaneError

SHELL: Final = ("sh", "sleep", "cat", "env", "ls", "id", "grep", "head", "date", "touch", "mkdir")
_LIBRARY: Final = re.compile(r"(?:=>\s*)?(/\S+)\s+\(0x")


def shell() -> dict[str, Path]:
    """A shell and a few tools."""
    found = {}
    for name in SHELL:
        path = shutil.which(name)
        if path is None:
            raise ControlPlaneError(f"{name}: not in PATH; an image for tests is made of it")
        found[f"/bin/{name}"] = Path(path).resolve()
    return {**found, **libraries(found.values())}


def libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """The libraries that these programs and modules load, by the path where they look."""
    words = [str(program) for program in programs]
    done = subprocess.run(
        ["ldd", *words], capture_output=True, text=True, errors="replace", check=False
    )
    return {path: Path(path).resolve() for path in _LIBRARY.findall(done.stdout)}
