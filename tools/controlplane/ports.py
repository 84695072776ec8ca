"""Finds free ports on the loopback interface for control planes that run in parallel.

The ports are below the kernel's ephemeral range. An outgoing connection could take a port of that
range between its choice and its use, or while a server restarts.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable

from tools.controlplane.errors import ControlPlaneError

FIRST_PORT = 20_000
LAST_PORT = 32_000
ATTEMPTS_MAX = 2_000
LOOPBACK = "127.0.0.1"


def draw() -> int:
    """A random port number from our range."""
    return FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT + 1)


def free_ports(count: int, *, draw: Callable[[], int] = draw) -> list[int]:
    """Return this many different free ports.

    All are bound until the last one is found, so that they differ.
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for _ in range(ATTEMPTS_MAX):
            if len(ports) == count:
                return ports
            port = draw()
            candidate = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                candidate.bind((LOOPBACK, port))
            except OSError:
                continue
            ports.append(port)
    raise ControlPlaneError(
        f"no {count} free ports between {FIRST_PORT} and {LAST_PORT} on {LOOPBACK}; "
        "end some of the programs that listen there"
    )
