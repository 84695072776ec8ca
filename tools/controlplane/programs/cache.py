"""The cache of built programs: ``<cache>/controlplane/<version>/<program>``.

A program is moved there by a rename, so an interrupted build leaves no partial file. Builds hold a
lock: of two runs that need the same program one builds and the other waits.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.versions import Program

SCRATCH_PREFIX = "building-"


class Cache:
    """The cache of one user."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Cache:
        """Return the cache in the XDG cache directory."""
        base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "~")) / ".cache")
        return cls(Path(base).expanduser() / "gpu-scheduler" / "controlplane")

    def place(self, program: Program) -> Path:
        """The path of a program."""
        return self.root / program.version / program.name

    def find(self, program: Program) -> Path | None:
        """Return the path of a cached program, or None."""
        place = self.place(program)
        return place if is_program(place) else None

    def install(self, program: Program, built: Path) -> Path:
        """Move a built program to its path atomically."""
        place = self.place(program)
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            built.chmod(0o755)
        built.replace(place)
        return place

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A temporary directory on the same file system."""
        self._make()
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=self.root))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def locked(self, while_waiting: Callable[[], None]) -> Iterator[None]:
        """Lock the cache for a build; ``while_waiting`` is called repeatedly until then.

        Files of a killed build are removed; the lock excludes another running build.
        """
        self._make()
        with (self.root / "lock").open("w") as lock:
            while not try_lock(lock.fileno()):
                while_waiting()
            for leftover in self.root.glob(f"{SCRATCH_PREFIX}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            yield

    def _make(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ControlPlaneError(
                f"{self.root}: cannot be created ({error.strerror}); set XDG_CACHE_HOME to a "
                "folder that you may write to"
            ) from error


def is_program(path: Path) -> bool:
    """Whether this is an executable file."""
    return path.is_file() and os.access(path, os.X_OK)


def try_lock(descriptor: int) -> bool:
    """Try to lock an open file; returns whether it succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in {errno.EAGAIN, errno.EACCES}:
            raise
        return False
    return True
