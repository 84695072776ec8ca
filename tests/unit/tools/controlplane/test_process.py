"""Programs that are started and ended by their process ids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.controlplane import process
from tools.controlplane.client import wait_until
from tools.controlplane.process import Running, command_line, start, tail

ROOT = Path(__file__).parents[4]
#: Says "ready" and then waits for a line that never comes; $0 is where it was started for.
WAITS = "echo ready; read line < {pipe}"
DEAF = "trap '' TERM; " + WAITS

STARTS_ONE = """
import sys
from pathlib import Path
from tools.controlplane.process import start

home = Path(sys.argv[1])
child = start("one", ["/bin/sh", "-c", sys.argv[2], str(home)], log=home / "log", home=home)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def script(text: str, home: Path) -> str:
    return text.format(pipe=home / "pipe")


@pytest.fixture
def child(home: Path) -> Iterator[Running]:
    words = ["/bin/sh", "-c", script(WAITS, home), str(home)]
    started = start("waits", words, log=home / "log", home=home)
    yield started
    started.kill()


def is_up(home: Path) -> bool:
    return (home / "log").exists() and "ready" in (home / "log").read_text()


def test_a_program_that_listens_ends_when_asked(child: Running, home: Path) -> None:
    """After stop its process is gone."""
    wait_until(lambda: is_up(home), what="the program")
    child.stop()

    assert not child.is_alive()
    assert command_line(child.pid) == ""


def test_a_program_that_does_not_listen_is_killed(home: Path) -> None:
    """Patience has an end."""
    words = ["/bin/sh", "-c", script(DEAF, home), str(home)]
    deaf = start("deaf", words, log=home / "log", home=home)
    wait_until(lambda: is_up(home), what="the program")
    deaf.stop(patience_s=0.1)

    assert not deaf.is_alive()
    assert deaf.child is not None
    assert deaf.child.returncode == -signal.SIGKILL


def test_a_program_of_an_earlier_process_is_ended_too(child: Running, home: Path) -> None:
    """The process id and the folder in its command line are enough."""
    wait_until(lambda: is_up(home), what="the program")
    known_by_id = Running("waits", child.pid, str(home))
    assert known_by_id.is_alive()

    # Only its parent can reap it, and the parent stops it here too.
    known_by_id.stop()
    # Its memory, with the command line, goes a moment before the process can be reaped.
    wait_until(lambda: not child.is_alive(), what="its end")


def test_a_process_id_that_names_another_program_is_never_signalled(
    child: Running, home: Path
) -> None:
    """The new process with this id has another command line."""
    wait_until(lambda: is_up(home), what="the program")
    stranger = Running("waits", child.pid, str(home / "another"))
    assert not stranger.is_alive()
    stranger.stop()
    stranger.kill()

    assert child.is_alive()


def test_nothing_survives_the_process_that_started_it(home: Path) -> None:
    """Even SIGKILL, which no one can handle, leaves no program behind."""
    owner = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE, str(home), script(WAITS, home)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    wait_until(lambda: is_up(home), what="the program")
    assert str(home) in command_line(pid)
    owner.kill()
    owner.communicate()

    wait_until(lambda: command_line(pid) == "", what="the program to be killed", timeout_s=10)


def test_a_program_does_not_see_the_callers_kubeconfig(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's own cluster must stay out of reach."""
    monkeypatch.setenv("KUBECONFIG", "/the/users/own")
    words = ["/bin/sh", "-c", "env", str(home)]
    shows = start("shows", words, log=home / "log", home=home)
    wait_until(lambda: not shows.is_alive(), what="the program to end")

    seen = (home / "log").read_text().splitlines()
    assert f"HOME={home}" in seen
    assert not [line for line in seen if line.startswith("KUBECONFIG=")]


def test_the_end_of_a_log_is_what_an_error_shows(tmp_path: Path) -> None:
    """The last lines only, and a word where there are none."""
    log = tmp_path / "log"
    assert tail(log) == "(no log)"
    log.write_text("")
    assert tail(log) == "(empty)"
    log.write_text("\n".join(f"line {number}" for number in range(100)))
    assert tail(log, lines=2) == "line 98\nline 99"


def test_a_command_that_does_not_name_its_folder_is_a_mistake(tmp_path: Path) -> None:
    """Without the mark it could not be stopped safely later."""
    with pytest.raises(AssertionError, match="names"):
        process.start("nameless", ["/bin/true"], log=tmp_path / "log", home=tmp_path)
