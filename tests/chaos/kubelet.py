"""What a kubelet does for one program: starts it again when it ended, and watches its memory.

An end that was not ordered is a violation. The program is started again then too, ever later, so
that the rest of the run still says something.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.windows import KILL_GRACE_S, Windows
from tests.controlplane.memory import limits_mib, peak_mib
from tools.controlplane import ControlPlaneError
from tools.product import Product, ProductError

LOOK_S: Final = 0.25
RESTART_S: Final = 1.0
BACKOFF_MAX_S: Final = 10.0
LIMITS_MIB: Final = limits_mib()


@dataclass(slots=True)
class Life:
    """What was seen of one program in all its lives."""

    name: str
    peak_mib: float = 0.0
    kills: int = 0
    ends: list[str] = field(default_factory=list)
    over_limit: list[str] = field(default_factory=list)


class Kubelet:
    """Keeps one program of one replica running, in a thread of its own."""

    def __init__(self, product: Product, program: str, windows: Windows) -> None:
        self._product = product
        self._program = program
        self._windows = windows
        self._stop = threading.Event()
        self._kill = threading.Event()
        self._is_up = False
        self._is_over = False
        self._backoff_s = RESTART_S
        self.life = Life(f"{product.directory.name}/{program}")
        self._thread = threading.Thread(target=self._run, name=self.life.name, daemon=True)

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)

    def kill(self) -> None:
        """Order a ``kill -9``; it is done within a moment."""
        self._kill.set()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            if not self._product.is_running(self._program):
                if self._is_up:
                    self._ended(self._product.log(self._program))
                self._stop.wait(self._backoff_s)
                self._start()
                continue
            self._is_up = True
            self._measure()
            if self._kill.is_set():
                self._killed()

    def _measure(self) -> None:
        peak = peak_mib(self._product.pid_of(self._program))
        self.life.peak_mib = max(self.life.peak_mib, peak)
        limit = LIMITS_MIB[self._program]
        if peak > limit and not self._is_over:
            self._is_over = True
            self.life.over_limit.append(f"{self.life.name} used more than {limit} MiB")

    def _killed(self) -> None:
        self._kill.clear()
        self.life.kills += 1
        self._is_up, self._backoff_s = False, RESTART_S
        with self._windows.during(KILL_GRACE_S):
            self._product.kill(self._program)

    def _ended(self, log: str) -> None:
        ends = self.life.ends
        kept = self._product.directory / f"{self._program}.end{len(ends) + 1}.log"
        kept.write_text(log, encoding="utf-8")
        ends.append(f"{self.life.name} ended by itself, {kept.name}: {last_words(log)[:200]}")
        self._is_up = False
        self._backoff_s = min(BACKOFF_MAX_S, self._backoff_s * 2)

    def _start(self) -> None:
        """Start it; an API server that is away is no fault of the program."""
        self._is_over = False
        try:
            if self._program == "scheduler":
                self._product.start_scheduler()
            else:
                self._product.start_webhook()
        except ProductError as error:
            self._ended(str(error))
        except ControlPlaneError:
            return


def last_words(log: str) -> str:
    """The exception of a log's last traceback, or its last line; our own begin with a date."""
    lines = log.strip().splitlines() or ["(no log)"]
    return next((line for line in reversed(lines) if not line[:1].isdigit()), lines[-1])
