"""Where built programs are kept between runs: ``<cache>/controlplane/<version>/<program>``.

A program appears there by a rename, complete or not at all, so an interrupted build leaves nothing
half-done. Builds take a lock: of two runs that need the same program one builds and one waits.
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
from tools.controlplane.versions import Program

SCRATCH_PREFIX = "building-"


class Cache:
    """The programs of one user of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Cache:
        """Return the cache that the XDG convention names."""
        base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "~")) / ".cache")
        return cls(Path(base).expanduser() / "gpu-scheduler" / "controlplane")

    def place(self, program: Program) -> Path:
        """Where a program belongs."""
        return self.root / program.version / program.name

    def find(self, program: Program) -> Path | None:
        """Return a program that was put here, if it was."""
        place = self.place(program)
        return place if is_program(place) else None

    def install(self, program: Program, built: Path) -> Path:
        """Put a finished program in its place, in one step."""
        place = self.place(program)
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            built.chmod(0o755)
        built.replace(place)
        return place

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder on the same file system; removed at the end, whatever happens."""
        self._make()
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=self.root))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def locked(self, while_waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the cache for a build; ``while_waiting`` is called again and again until we do.

        What a killed build has left behind is removed: the lock proves that nobody works on it.
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
    """Whether this is a file that may be started."""
    return path.is_file() and os.access(path, os.X_OK)


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file, if nobody has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in {errno.EAGAIN, errno.EACCES}:
            raise
        return False
    return True
