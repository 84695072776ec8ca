"""Where the webhook beside us asks: a socket file that is ours and its only."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from scheduler import httpserver
from scheduler.httpserver import Handler, Limits


class Server(httpserver.Server):
    """Listens on a socket file until cancelled."""

    def __init__(self, handler: Handler, body_max: int) -> None:
        super().__init__(handler, Limits(body_max))

    async def serve(self, socket: Path) -> None:
        """A file left by a killed process is replaced; ours goes with us."""
        socket.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(self.connection, str(socket))
        try:
            socket.chmod(0o660)
            await self.sweep()
        finally:
            server.close()
            for connection in list(self.connections):
                connection.close()
            with contextlib.suppress(OSError):
                socket.unlink()
