"""The Unix socket for the webhook in the same pod; only these two programs may open it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Final

from scheduler.httpserver.connection_metrics import ConnectionMetrics
from scheduler.httpserver.limits import SOCKET
from scheduler.httpserver.server import Handler, Server

MODE: Final = 0o660
_BACKLOG: Final = 1024


async def serve(handler: Handler, path: Path, tally: ConnectionMetrics) -> None:
    """Listen on a socket file until cancelled.

    A file that a killed process left is replaced; it is deleted at the end.
    """
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    try:
        path.chmod(MODE)
        listener.listen(_BACKLOG)
        async with Server(handler, SOCKET, tally).serving(listener, None, grace_s=0.0):
            await asyncio.Event().wait()
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            path.unlink()
