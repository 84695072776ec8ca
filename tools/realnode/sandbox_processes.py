"""The programs of one sandbox: started, polled until ready, stopped in reverse order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.controlplane import process
from tools.controlplane.client import wait_until
from tools.controlplane.errors import ProcessDied
from tools.realnode.settings import Places

SANDBOX: Final = Path(__file__).with_name("sandbox.py")
HOLDER: Final = "sandbox"
READY_S: Final = 90.0


class SandboxProcesses:
    """The programs in the sandbox of one node, by name."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._running: dict[str, process.Running] = {}

    def begin(self, binds: Mapping[Path, Path]) -> None:
        """Create the sandbox with these bind mounts."""
        ready = self._places.directory / "sandbox.pid.ready"
        ready.unlink(missing_ok=True)
        words = [f"{source}:{target}" for source, target in binds.items()]
        self._start(HOLDER, [*_sandbox("hold"), str(self._places.directory), *words])
        self.wait(HOLDER, ready.exists)

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a program in the sandbox."""
        return [*_sandbox("enter"), str(self._places.directory), *command]

    def spawn(self, name: str, command: Sequence[str]) -> process.Running:
        """Start a program in the sandbox."""
        return self._start(name, self.inside(command))

    def has(self, name: str) -> bool:
        """Whether a program was started and not stopped."""
        return name in self._running

    def end(self, name: str, *, crash: bool = False) -> None:
        """Stop a program and wait for its end."""
        program = self._running.pop(name)
        if crash:
            program.kill()
        else:
            program.stop()

    def close(self) -> None:
        """Stop all programs; the end of the sandbox ends their children."""
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


def _sandbox(word: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(SANDBOX), word]
