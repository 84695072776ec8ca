"""`gpuctl demo`, as a person runs it: its own control plane, and an exit status that means it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.controlplane import ControlPlane

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "gpuctl", "demo"]
PAGE = ROOT / "docs" / "demo.md"
APPLIED = "kubectl apply: "


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name (it will hold a Unix socket); whatever runs there is ended."""
    path = Path(tempfile.mkdtemp(prefix="gpu-demo-test-"))
    try:
        yield path
        if running(path):
            subprocess.run([*COMMAND, "--end", "--directory", str(path)], cwd=ROOT, check=True)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def demo(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], cwd=ROOT, capture_output=True, text=True, check=False)


def picture() -> str:
    """The table that its page shows as the demo's result."""
    told = PAGE.read_text().partition("The result of `make demo`")[2]
    found = re.search(r"^```text\n(.*?)^```$", told, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def running(path: Path) -> list[str]:
    """The command lines of all processes that name a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:
                continue
            if f"{path}/" in line:
                found.append(line)
    return found


def assert_printed_commands_work(shown: str, path: Path) -> None:
    """Each command below "it keeps running" is typed into one shell; all but the one that ends."""
    *typed, last = printed_commands(shown.partition("it keeps running")[2])
    assert [
        command.split("gpuctl ")[-1].split()[0] for command in typed if "gpuctl " in command
    ] == [
        *("why", "top", "free", "dashboard", "simulate"),
    ]
    assert last.endswith(f"demo --end --directory {path}")
    script = "\n".join(f"{command} || [ $? = 2 ] || exit 3" for command in typed)
    done = subprocess.run(
        ["bash", "-c", script], cwd="/", capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    (metrics,) = re.findall(r"its metrics: (http://127\.0\.0\.1:\d+/metrics)", shown)
    with urllib.request.urlopen(metrics, timeout=60) as answer:  # noqa: S310  # on the loopback
        assert b"gpu_scheduler_" in answer.read()


def assert_last_lines_can_be_typed(shown: str) -> None:
    (command,) = printed_commands(shown.partition("cells are as expected")[2])
    assert shown.endswith(f"  {command}\n")
    done = subprocess.run(["bash", "-c", command], cwd="/", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def printed_commands(shown: str) -> list[str]:
    return [line[2:] for line in shown.splitlines() if line.startswith("  ")]


def hear_interrupts() -> None:
    """A test run that was started in the background ignores Ctrl-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def until_applied(path: Path) -> subprocess.Popen[str]:
    """Start a demo and return once it has applied its first workload."""
    process = subprocess.Popen(
        [*COMMAND, "--scenario", "map", "--directory", str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=hear_interrupts,
    )
    assert process.stdout is not None
    told: list[str] = []
    for line in process.stdout:
        told.append(line)
        if APPLIED in line:
            return process
    raise AssertionError(f"the demo ended by itself ({process.wait()}):\n{''.join(told)}")


@pytest.mark.contract("S2-19", "S0-3", "S0-15", "S0-19", "S0-20", "S0-24", "S0-B1", "S2-B7")
def test_demo_meets_its_expectations() -> None:
    done = demo()

    assert done.returncode == 0, done.stdout + done.stderr
    foretold, _, real = done.stdout.partition("starting etcd")
    for table in (foretold, real):
        assert "gpu-check-2              worker3  -                 gpu:0,1,2    0,1,2" in table
        assert "more-2g x 28             small    2g.20gb->1g.10gb  1g.10gb x 1  -" in table
    assert "test-medium-gpu          medium   2g.20gb" in foretold
    assert "started by itself: more-2g-" in real
    assert "more-2g x 8              medium   2g.20gb" in real
    assert "all 92 cells are as expected" in real
    assert_last_lines_can_be_typed(done.stdout)
    assert picture() in real
    assert "\x1b" not in done.stdout


@pytest.mark.contract("S0-B1")
def test_demo_with_a_broken_product_fails_and_names_the_cells() -> None:
    """The webhook runs and is not registered: no environment for maps, no fallback for MIG."""
    done = demo("--sabotage", "webhook")

    assert done.returncode == 1
    told = done.stderr.splitlines()
    # A mapped pod that came past the webhook is not bound blind, and its set waits for it.
    assert told[0] == "13 of 92 cells are not as expected:", done.stderr
    assert "  gpu-check-0, CUDA_VISIBLE_DEVICES: expected 0,1, seen nothing" in told
    assert "  more-2g on small (2g.20gb->1g.10gb), PODS: expected 28, seen 0" in told
    shutil.rmtree(told[-1].removeprefix("the logs are in "))


def test_fake_gpus_of_a_demo_that_ends_are_refused() -> None:
    done = demo("--with-fake-gpus")

    assert (done.returncode, done.stdout) == (1, "")
    assert "--with-fake-gpus: add --keep" in done.stderr


def test_ctrl_c_ends_everything_that_was_started(folder: Path) -> None:
    process = until_applied(folder)
    assert running(folder), "it runs"

    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=200)

    assert process.returncode == 130
    assert "interrupted; all its processes have ended" in rest
    assert running(folder) == []


def test_a_program_that_dies_ends_the_demo_with_the_end_of_its_log(folder: Path) -> None:
    process = until_applied(folder)
    state = json.loads((folder / "cluster" / "state.json").read_text())

    os.kill(state["pids"]["kwok"], signal.SIGKILL)
    rest, _ = process.communicate(timeout=200)

    assert process.returncode == 1
    assert "gpuctl demo: kwok has ended; its last lines:" in rest
    assert f"the logs are in {folder}" in rest
    assert running(folder) == []


def test_a_kept_demo_runs_on_until_it_is_ended(folder: Path) -> None:
    """Its cluster also has the fake GPUs of the examples, which run there."""
    kept = demo("--keep", "--scenario", "map", "--with-fake-gpus", "--directory", str(folder))

    assert kept.returncode == 0, kept.stdout + kept.stderr
    assert f"export KUBECONFIG={folder}/cluster/admin.kubeconfig" in kept.stdout
    plane = ControlPlane.attach(folder / "cluster")
    assert "gpu-check-4" in plane.kubectl("get", "pods")
    assert_printed_commands_work(kept.stdout, folder)
    place = ("-n", "gpu-examples")
    plane.kubectl("apply", *place, "-f", str(ROOT / "examples/jupyter/pods.yaml"))
    plane.kubectl("wait", *place, "--for=condition=Ready", "--timeout=60s", "pod/jupyter-alice")
    again = demo("--keep", "--directory", str(folder))
    assert (again.returncode, "is not empty" in again.stderr) == (1, True)

    ended = demo("--end", "--directory", str(folder))

    assert (ended.returncode, ended.stdout) == (0, f"the demo in {folder} has been stopped\n")
    assert running(folder) == []
    assert not folder.exists()
