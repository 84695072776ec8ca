"""Listening sockets for the addresses in configurations and flags."""

from __future__ import annotations

import socket
from typing import Final

#: The kernel's queue of connections that were not accepted yet.
BACKLOG: Final = 1024


def listen(address: str) -> socket.socket:
    """A listening socket at ``host:port``. OSError if the port is taken.

    Without a host on every address, of both families if available.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host and socket.has_dualstack_ipv6():
        every = ("", int(port))
        return socket.create_server(
            every, family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, int(port)), family=family, backlog=BACKLOG)
