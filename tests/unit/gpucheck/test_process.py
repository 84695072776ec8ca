"""The check service as a container runs it: a real process, real signals, real output."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
END_S_MAX = 30.0


@contextmanager
def gpucheck(**variables: str) -> Iterator[subprocess.Popen[str]]:
    # -S: no installed packages; what is left is what a bare image has.
    process = subprocess.Popen(
        [sys.executable, "-S", "-m", "gpucheck"],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.contract("S2-18")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_at_once_however_long_the_interval(
    number: signal.Signals,
) -> None:
    given = {"NODE_NAME": "node4", "POD_NAMESPACE": "tests", "CUDA_VISIBLE_DEVICES": "3"}
    with gpucheck(LOG_INTERVAL="86400", **given) as process:
        assert process.stdout is not None
        started = [process.stdout.readline() for _ in range(4)]
        process.send_signal(number)
        rest, errors = process.communicate(timeout=END_S_MAX)

    assert started == [
        "GPU Scheduler Check service starting...\n",
        "Log interval: 86400 seconds\n",
        "Environment validation passed\n",
        "Node: node4, CUDA_VISIBLE_DEVICES: 3\n",
    ]
    assert rest == (
        f"Received signal {number.value}, shutting down gracefully...\n"
        "GPU Scheduler Check service stopped\n"
    )
    assert errors == ""
    assert process.returncode == 0


@pytest.mark.contract("S2-18")
def test_the_line_comes_again_after_each_interval() -> None:
    with gpucheck(LOG_INTERVAL="1", NODE_NAME="node1", CUDA_VISIBLE_DEVICES="") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(6)]

    assert lines[-2:] == ["Node: node1, CUDA_VISIBLE_DEVICES: empty\n"] * 2


@pytest.mark.contract("S2-18")
def test_an_interval_below_one_ends_with_one_line_on_stderr() -> None:
    with gpucheck(LOG_INTERVAL="0") as process:
        output, errors = process.communicate(timeout=END_S_MAX)

    assert process.returncode == 1
    assert output == ""
    assert errors == (
        "LOG_INTERVAL: expected whole seconds from 1 to 86400, got '0'; leave it out for 10\n"
    )
