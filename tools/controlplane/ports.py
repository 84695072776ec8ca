"""Free ports on the loopback interface, so that several control planes can run side by side.

Ports are taken below the range from which the kernel serves outgoing connections: one from inside
it can be lost to any client between the choice and the use, or while a server restarts.
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
    """Draw a port number from our range."""
    return FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT + 1)


def free_ports(count: int, *, draw: Callable[[], int] = draw) -> list[int]:
    """Return this many different ports on which nothing listens.

    All are held until the last one is found, so that no two are the same.
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
