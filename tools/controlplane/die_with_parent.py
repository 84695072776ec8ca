"""Ties a program to the process that started it, and then becomes that program.

Started as a script: ``python die_with_parent.py PARENT-PID PROGRAM ARGUMENT...``. The kernel kills
the program when its parent dies, so a killed test run leaves no process behind. On a kernel without
this call the program outlives its parent. The script imports only fast standard modules, because it
runs once per started program."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Request the signal, check that the parent is alive, and exec the program."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent process has ended")
    os.execv(command[0], command)  # noqa: S606 - becoming another program is the purpose


if __name__ == "__main__":
    main()
