"""``python -m gpucheck``: the process around the service, with its signals and its output."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Callable

from gpucheck.environment import Invalid, read_environment
from gpucheck.service import run


def signals() -> Callable[[float], int | None]:
    """Return a wait that SIGTERM and SIGINT end at once, also a signal before the wait.

    The interpreter writes the signal's number into a pipe and the wait reads that pipe. An Event
    set by a signal handler is not safe: the handler runs in the waiting thread, and may meet the
    Event's own lock held.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)

    def wait(seconds: float) -> int | None:
        ready, _, _ = select.select([reader], [], [], seconds)
        return os.read(reader, 1)[0] if ready else None

    return wait


def main() -> int:
    wait = signals()
    try:
        environment = read_environment(os.environ, socket.gethostname())
    except Invalid as problem:
        print(problem, file=sys.stderr)
        return 1
    run(environment, say=lambda line: print(line, flush=True), wait=wait)
    return 0


if __name__ == "__main__":
    sys.exit(main())
