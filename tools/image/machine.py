"""A replacement of the base image: programs of this machine with their libraries.

The dynamic linker lists the libraries, so an image contains exactly those that its programs load.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tools.controlplane.errors import ControlPlaneError

SHELL: Final = ("sh", "sleep", "cat", "env", "ls", "id", "grep", "head", "date", "touch", "mkdir")
PASSWD: Final = b"root:x:0:0:root:/root:/bin/sh\n"
VERSION: Final = f"python{sys.version_info[0]}.{sys.version_info[1]}"
#: Large parts of the standard library that a server does not use.
LEFT_OUT: Final = ("test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "config-")
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


def python() -> dict[str, Path]:
    """This interpreter and its standard library, below ``/usr/local`` as in the base image."""
    base = Path(sys.base_prefix)
    program = (base / "bin" / VERSION).resolve()
    found = {f"/usr/local/bin/{name}": program for name in ("python", "python3", VERSION)}
    library = base / "lib" / VERSION
    for path in files_below(library):
        inside = path.relative_to(library)
        if not inside.parts[0].startswith((*LEFT_OUT, "site-packages", "dist-packages")):
            found[f"/usr/local/lib/{VERSION}/{inside}"] = path
    found = {name: path for name, path in found.items() if "_tkinter" not in name}
    modules = [path for path in found.values() if path.suffix == ".so"]
    for name, path in libraries([program, *modules]).items():
        # The linker also searches the interpreter's prefix.
        found[f"/usr/lib/{Path(name).name}" if name.startswith(str(base)) else name] = path
    return found


def files_below(folder: Path) -> Iterator[Path]:
    """The files of a directory without compiled Python files."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """The libraries that these programs and modules load, by path."""
    words = [str(program) for program in programs]
    done = subprocess.run(
        ["ldd", *words], capture_output=True, text=True, errors="replace", check=False
    )
    return {path: Path(path).resolve() for path in _LIBRARY.findall(done.stdout)}
