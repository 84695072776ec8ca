"""Starts, checks and stops programs by process id.

The kernel reuses process ids. A program is only signalled if its command line contains the
directory that it was started for. No program is ever stopped by its name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.errors import ControlPlaneError

PATIENCE_S = 15.0
KILL_S = 10.0
POLL_S = 0.02
TAIL_LINES = 12
#: The variables that a program inherits; the user's KUBECONFIG, for example, is not passed on.
PASSED_ON = ("PATH", "LANG", "TMPDIR", "GOMAXPROCS", "GODEBUG")

# PR_SET_PDEATHSIG is tied to the thread that starts a program, and threads of a caller may be
# short-lived. This one lives as long as the interpreter does.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawn")


@dataclass(slots=True)
class Running:
    """A program that was started by this process or, if ``child`` is None, by an earlier one."""

    name: str
    pid: int
    mark: str
    child: subprocess.Popen[bytes] | None = None

    def is_alive(self) -> bool:
        """Whether it runs; a zombie does not."""
        if self.child is not None:
            return self.child.poll() is None
        return self.mark in command_line(self.pid)

    def stop(self, patience_s: float = PATIENCE_S) -> None:
        """Send SIGTERM, after ``patience_s`` SIGKILL, and wait for the end."""
        if self.is_alive():
            os.kill(self.pid, signal.SIGTERM)
            if not self._is_gone_within(patience_s):
                self.kill()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if self.is_alive():
            os.kill(self.pid, signal.SIGKILL)
            if not self._is_gone_within(KILL_S):
                raise ControlPlaneError(f"{self.name} (process {self.pid}) cannot be killed")

    def _is_gone_within(self, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True


def start(
    name: str, command: Sequence[str], *, log: Path, home: Path, dies_with_parent: bool = True
) -> Running:
    """Start a program whose output goes to a log; by default it dies with this process."""
    mark = str(home)
    assert any(mark in word for word in command), f"{name}: no word of its command names {mark}"
    words = list(command)
    if dies_with_parent:
        wrapper = str(Path(__file__).with_name("die_with_parent.py"))
        words = [sys.executable, "-I", "-S", wrapper, str(os.getpid()), *words]
    environment = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
    environment["HOME"] = mark

    def spawn() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=home,
                start_new_session=True,  # on Ctrl-C this process stops the programs in order
            )

    child = _SPAWNER.submit(spawn).result()
    return Running(name, child.pid, mark, child)


def put_aside(log: Path) -> None:
    """Rename the log of the previous run, so that the next run starts with an empty one."""
    if log.exists():
        log.replace(log.with_suffix(".former.log"))


def command_line(pid: int) -> str:
    """Return a process' command line; empty if it has ended or is a zombie."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return words.replace(b"\0", b" ").decode(errors="replace")


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a log."""
    if not log.exists():
        return "(no log)"
    text = log.read_text(errors="replace").splitlines()
    return "\n".join(text[-lines:]) or "(empty)"
