"""The programs that live in one cell: started, watched until ready, ended in the reverse order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.controlplane import process
from tools.controlplane.client import wait_until
from tools.controlplane.errors import ProcessDied
from tools.controlplane.realnode.settings import Places

CELL: Final = Path(__file__).with_name("cell.py")
HOLDER: Final = "cell"
READY_S: Final = 90.0


class SandboxProcesses:
    """What runs in the cell of one node, by name."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._running: dict[str, process.Running] = {}

    def begin(self, binds: Mapping[Path, Path]) -> None:
        """Make the cell, with folders of ours in these places."""
        ready = self._places.directory / "cell.pid.ready"
        ready.unlink(missing_ok=True)
        words = [f"{source}:{target}" for source, target in binds.items()]
        self._start(HOLDER, [*_cell("hold"), str(self._places.directory), *words])
        self.wait(HOLDER, ready.exists)

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a program among the cell's mounts and processes."""
        return [*_cell("enter"), str(self._places.directory), *command]

    def spawn(self, name: str, command: Sequence[str]) -> process.Running:
        """Start a program in the cell."""
        return self._start(name, self.inside(command))

    def has(self, name: str) -> bool:
        """Whether a program was started and not ended."""
        return name in self._running

    def end(self, name: str, *, crash: bool = False) -> None:
        """End a program and return when it is gone."""
        program = self._running.pop(name)
        if crash:
            program.kill()
        else:
            program.stop()

    def close(self) -> None:
        """End all of them; with the cell goes whatever they have left."""
        for name in reversed([*self._running]):
            self.end(name)

    def wait(self, name: str, check: Callable[[], bool]) -> None:
        """Wait until a program is ready, or raise the end of its log."""
        log = self._places.log(name)

        def look() -> bool:
            if not self._running[name].is_alive():
                raise ProcessDied(name, process.tail(log), str(log))
            return check()

        wait_until(look, what=f"{name} to be ready", timeout_s=READY_S)

    def _start(self, name: str, command: Sequence[str]) -> process.Running:
        log, home = self._places.log(name), self._places.directory
        self._running[name] = process.start(name, command, log=log, home=home)
        return self._running[name]


def _cell(word: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(CELL), word]
