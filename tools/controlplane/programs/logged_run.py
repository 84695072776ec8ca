"""Runs a long command: output to a log, progress to the terminal.

After a failure the error is one line for known causes (no network, a full disk), else the
compiler's message with the log's path.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.progress import REFRESH_S, Step

DISK_FULL: Final = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
NO_NETWORK: Final = re.compile(
    r"dial tcp|no such host|i/o timeout|TLS handshake timeout|proxyconnect|network is unreachable"
    r"|name resolution|Max retries exceeded|\(from versions: none\)|NewConnectionError"
    r"|module lookup disabled",
    re.IGNORECASE,
)
END_S: Final = 10.0


class LoggedRun:
    """One command, its log, and the pattern of its progress lines."""

    def __init__(self, what: str, log: Path, environ: Mapping[str, str]) -> None:
        self.what = what
        self.log = log
        self._environ = dict(environ)

    def run(
        self,
        command: Sequence[str],
        step: Step,
        *,
        cwd: Path | None = None,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Run the command; a failure raises the cause from its log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("w") as log:
            child = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            assert child.stdout is not None, "the output is a pipe"
            reader = threading.Thread(target=_copy, args=(child.stdout, log, on_line), daemon=True)
            reader.start()
            try:
                _wait(child, step)
            finally:
                _end(child)
                reader.join()
                child.stdout.close()
        if child.returncode != 0:
            raise self._failure()

    def _failure(self) -> ControlPlaneError:
        text = self.log.read_text(errors="replace")
        if DISK_FULL.search(text):
            free_gb = shutil.disk_usage(self.log.parent).free / 1e9
            return ControlPlaneError(
                f"{self.what}: the disk is full ({free_gb:.1f} GB free at {self.log.parent}); "
                f"make room and start again, finished parts are kept; log: {self.log}"
            )
        if NO_NETWORK.search(text):
            return ControlPlaneError(
                f"{self.what}: the network cannot be reached; check the connection or set "
                f"HTTPS_PROXY, GOPROXY or PIP_INDEX_URL; log: {self.log}"
            )
        lines = [line for line in text.splitlines() if line.strip()] or ["(no output)"]
        return ControlPlaneError(f"{self.what} failed: {lines[-1].strip()}; log: {self.log}")


def _copy(source: IO[str], log: IO[str], on_line: Callable[[str], None]) -> None:
    for line in source:
        log.write(line)
        on_line(line.rstrip("\n"))


def _wait(child: subprocess.Popen[str], step: Step) -> None:
    while True:
        try:
            child.wait(timeout=REFRESH_S)
        except subprocess.TimeoutExpired:
            step.tick()
        else:
            return


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is not None:
        return
    # Like Ctrl-C: Go removes its work directory on SIGINT, but not on SIGTERM.
    child.send_signal(signal.SIGINT)
    try:
        child.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
