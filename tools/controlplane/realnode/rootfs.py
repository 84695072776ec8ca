"""What goes into the images: programs of this machine with the libraries that they need.

The libraries are found by asking the dynamic linker, so an image holds exactly what its programs
load, at the places where they look for it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from tools.controlplane.errors import ControlPlaneError

REPOSITORY: Final = Path(__file__).parents[3]
PACKAGES: Final = ("scheduler", "webhook", "fakegpu", "gpucheck", "gpuctl")
SHELL: Final = ("sh", "sleep", "cat", "env", "ls", "id", "grep", "head", "date", "touch", "mkdir")
#: Of the standard library: large, and of no use to a server.
LEFT_OUT: Final = ("test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "config-")
_LIBRARY: Final = re.compile(r"(?:=>\s*)?(/\S+)\s+\(0x")
_PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


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


def python() -> dict[str, Path]:
    """This interpreter and its standard library, below ``/usr/local``."""
    base, version = Path(sys.base_prefix), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    program = (base / "bin" / version).resolve()
    found = {f"/usr/local/bin/{name}": program for name in ("python", "python3", version)}
    library = base / "lib" / version
    for path in _files(library):
        inside = path.relative_to(library)
        if not inside.parts[0].startswith((*LEFT_OUT, "site-packages", "dist-packages")):
            found[f"/usr/local/lib/{version}/{inside}"] = path
    modules = [path for path in found.values() if path.suffix == ".so"]
    for name, path in libraries([program, *modules]).items():
        # An interpreter of one's own prefix is looked for beside the system's libraries.
        moved = f"/usr/lib/{Path(name).name}" if name.startswith(str(base)) else name
        found[moved] = path
    return found


def product() -> dict[str, Path]:
    """The product and what it is locked to, for the interpreter of ``python``."""
    target = f"/usr/local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    found: dict[str, Path] = {}
    locked = (REPOSITORY / "requirements" / "runtime.txt").read_text()
    for name in _PINNED.findall(locked):
        try:
            files = metadata.distribution(name).files or ()
        except metadata.PackageNotFoundError:
            continue  # for another system or another Python
        for file in files:
            place = Path(str(file.locate()))
            if ".." not in file.parts and place.suffix != ".pyc" and place.is_file():
                found[f"{target}/{file}"] = place
    native = [path for path in found.values() if ".so" in path.suffixes]
    found |= libraries(native)
    for package in PACKAGES:
        for path in _files(REPOSITORY / package):
            found[f"{target}/{path.relative_to(REPOSITORY)}"] = path
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
