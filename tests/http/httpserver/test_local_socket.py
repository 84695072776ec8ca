"""The socket file of the server beside the webhook."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

from scheduler.admission.local_socket import serve
from scheduler.httpserver.connection_metrics import uncounted
from scheduler.httpserver.messages import Reply, Request
from tests.patience import PATIENCE_S


async def repeat(request: Request) -> Reply:
    return Reply(200, b"got " + request.body)


async def test_socket_file_is_group_accessible_and_removed_at_exit() -> None:
    """One that a killed process left behind is replaced."""
    with TemporaryDirectory(prefix="socket") as folder:
        path = Path(folder) / "s"
        path.write_text("left behind")
        task = asyncio.create_task(serve(repeat, path, uncounted("socket")))
        async with asyncio.timeout(PATIENCE_S):
            while not path.is_socket():  # noqa: ASYNC110 - no notification for a new file
                await asyncio.sleep(0.001)
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
            answer = await reader.readuntil(b"got hi")
            mode = stat.S_IMODE(path.stat().st_mode)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            rest = await reader.read()
            writer.close()

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert mode == 0o660
    assert rest == b""
    assert not path.exists()
