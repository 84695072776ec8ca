"""``python -m webhook`` as a process: its words, its environment, its end."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from scheduler.controllers.certificates.issuer import make_certificates
from tests.patience import PATIENCE_S
from webhook.__main__ import parse

ROOT = Path(__file__).parents[3]
START_LINE = "Starting GPU allocation webhook server on port "


@pytest.mark.contract("S0-18", "S2-12", "S2-13")
def test_port_and_name_come_from_seed_env_or_command_line() -> None:
    """The command line wins; without either the seeds' defaults."""
    words = ["--socket", "s"]
    environment = {"PORT": "9443", "SCHEDULER_NAME": "team-a"}

    default = parse(words, {})
    told = parse(words, environment)
    said = parse([*words, "--port", "1", "--scheduler-name", "x"], environment)

    assert (default.port, default.scheduler_name) == (8443, "gpu-scheduler")
    assert default.cert_dir == Path("/certs")
    assert (told.port, told.scheduler_name) == (9443, "team-a")
    assert (said.port, said.scheduler_name) == (1, "x")


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The real process; killed if a test leaves it running."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "webhook", "--socket", str(folder / "s")),
            *("--cert-dir", str(folder), "--host", "127.0.0.1", "--port", "0", *words),
        ],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONWARNINGS": "error"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def write_pair(folder: Path) -> bytes:
    """Files for the server; the authority for its client."""
    bundle = make_certificates([], ["127.0.0.1"], 1, now=datetime.datetime.now(datetime.UTC))
    (folder / "tls.crt").write_bytes(bundle.cert_pem)
    (folder / "tls.key").write_bytes(bundle.key_pem)
    return bundle.ca_pem


async def health(port: int, authority: bytes) -> int:
    """The status of /healthz."""
    context = ssl.create_default_context(cadata=authority.decode())
    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"https://127.0.0.1:{port}/healthz") as answer,
    ):
        return answer.status


@pytest.mark.contract("S0-23", "S2-15", "S2-B12")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_serves_and_ends_on_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    """The seeds' start lines on standard output, exit code 0, nothing on standard error."""
    authority = write_pair(tmp_path)
    with started(tmp_path, "--log-format", "json") as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline())["event"] for _ in range(2)]
        status = asyncio.run(health(int(lines[0].removeprefix(START_LINE)), authority))
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_S)

    assert lines[0].startswith(START_LINE)
    assert lines[1] == "Webhook server ready"
    assert (status, process.returncode, errors) == (200, 0, "")


def test_the_console_format_shows_the_line_as_it_is(tmp_path: Path) -> None:
    """So that a grep for the seed's text finds it."""
    write_pair(tmp_path)
    with started(tmp_path) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]

    assert lines[0].split("] ")[1].startswith(START_LINE)
    assert lines[1].endswith("] Webhook server ready\n")


@pytest.mark.contract("S2-B5")
def test_a_start_without_a_certificate_says_so_in_one_line(tmp_path: Path) -> None:
    """Exit code 1, and no stack trace."""
    with started(tmp_path) as process:
        _, errors = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 1
    assert errors.startswith(f"webhook: {tmp_path}: tls.crt and tls.key cannot be read: ")
    assert errors.count("\n") == 1


def test_a_port_that_is_taken_is_named_in_one_line(tmp_path: Path) -> None:
    """So that it is clear which of the pod's ports it was."""
    write_pair(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(tmp_path, "--port", str(port)) as process:
            _, errors = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 1
    assert errors.startswith(f"webhook: cannot listen on 127.0.0.1:{port}: ")
    assert errors.count("\n") == 1
