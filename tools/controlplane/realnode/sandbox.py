"""A private corner of this machine: mounts and processes that vanish together.

    python cell.py hold FOLDER BIND...            becomes the cell; BIND is SOURCE:TARGET
    python cell.py enter FOLDER PROGRAM ARGUMENT...

A kubelet wants fixed places (``/var/lib/kubelet``) and leaves mounts, shims and containers behind
when it is killed. In a cell those places are folders of the caller's, and when the cell's first
process dies the kernel ends every process in it and takes the mounts away. The network is the
machine's. Started as a script by ``process.start``; standard library only.
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
PID_FILE = "cell.pid"

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Do what the first argument says."""
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
        # The first process of a cell inherits orphans; the kernel buries them for who ignores them.
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
    """Pass on the wish to end, and end as the child ended."""

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
