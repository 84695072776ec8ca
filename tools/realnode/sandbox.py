"""A mount and PID namespace, whose mounts and processes end with its first process.

    python sandbox.py hold FOLDER BIND...         becomes the sandbox; BIND is SOURCE:TARGET
    python sandbox.py enter FOLDER PROGRAM ARGUMENT...

A kubelet uses fixed paths (``/var/lib/kubelet``) and leaves mounts, shims and containers behind
when it is killed. In the sandbox these paths are directories of the caller. When its first process
dies, the kernel kills every process in it and removes the mounts. The network is the machine's.
Started as a script by ``process.start``; standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from types import FrameType

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
PID_FILE = "sandbox.pid"

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Run the command in the first argument."""
    what, folder, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    if what == "hold":
        _hold(folder, rest)
    else:
        _enter(folder, rest)


def _hold(folder: str, binds: list[str]) -> None:
    _call("unshare", CLONE_NEWNS | CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        _die_with_parent()
        _mount(None, "/", None, MS_REC | MS_PRIVATE)
        _mount("proc", "/proc", "proc", 0)
        for bind in binds:
            source, _, target = bind.partition(":")
            os.makedirs(source, exist_ok=True)
            os.makedirs(target, exist_ok=True)
            _mount(source, target, None, MS_BIND)
        # PID 1 of the sandbox adopts orphans; with SIGCHLD ignored the kernel reaps them.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        with open(os.path.join(folder, PID_FILE + ".ready"), "w") as ready:
            ready.write("ready")
        while True:
            signal.pause()
    with open(os.path.join(folder, PID_FILE), "w") as file:
        file.write(str(child))
    _wait_for(child)


def _enter(folder: str, command: list[str]) -> None:
    with open(os.path.join(folder, PID_FILE)) as file:
        pid = int(file.read())
    spaces = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("pid", "mnt")}
    where = os.getcwd()
    _call("setns", spaces["pid"], CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        _die_with_parent()
        _call("setns", spaces["mnt"], CLONE_NEWNS)
        os.chdir(where)
        os.execvp(command[0], command)  # noqa: S606 - becoming another program is the purpose
    _wait_for(child)


def _wait_for(child: int) -> None:
    """Forward SIGTERM, and exit with the child's status."""

    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


def _die_with_parent() -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = (source and source.encode(), target.encode(), kind and kind.encode())
    _call("mount", *words, ctypes.c_ulong(flags), None)


def _call(name: str, *arguments: object) -> None:
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        sys.exit(f"{name} {arguments}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
