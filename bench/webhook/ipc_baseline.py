"""The baseline of this machine: one request and response between two processes.

python -m bench.webhook.ipc_baseline SOCKET     (the server)
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.observer import percentile

QUESTION = b"x" * 1500


def measure(count: int, pause_s: float) -> dict[str, float]:
    """p50 and p99 in milliseconds, with a pause in which both processes fall asleep."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "s")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        other = subprocess.Popen([sys.executable, "-m", "bench.webhook.ipc_baseline", path])
        connection, _ = listener.accept()
        times = []
        with listener, connection:
            for _ in range(count):
                started = time.perf_counter()
                connection.sendall(QUESTION)
                _read(connection)
                times.append(1000 * (time.perf_counter() - started))
                time.sleep(pause_s)
        other.wait(timeout=10)
    return {"p50_ms": percentile(times, 0.5), "p99_ms": percentile(times, 0.99)}


def _read(connection: socket.socket) -> bytes:
    """One request or response; empty after the peer has closed."""
    content = b""
    while len(content) < len(QUESTION):
        piece = connection.recv(len(QUESTION))
        if not piece:
            return b""
        content += piece
    return content


def answer(path: str) -> None:
    """Send everything back until the peer closes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        while content := _read(connection):
            connection.sendall(content)


if __name__ == "__main__":
    answer(sys.argv[1])
