"""A running webhook server for a test, and clients that trust it."""

from __future__ import annotations

import asyncio
import base64
import datetime
import io
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from scheduler.controllers.certificates.issuer import CertificateBundle, make_certificates
from tests.patience import PATIENCE_S
from tests.unit.webhook.pods import MIG_2G, container, pod
from webhook.app import Server, Settings

NOW = datetime.datetime.now(datetime.UTC)
BUNDLE = make_certificates(["localhost"], ["127.0.0.1"], 1, now=NOW)
JSON = {"Content-Type": "application/json"}
MAPPED = pod(map_text="0=node1:0,1")
MIG_POD = pod(container(limits={MIG_2G: "1"}))
Session = aiohttp.ClientSession


def write(folder: Path, bundle: CertificateBundle) -> None:
    (folder / "tls.crt").write_bytes(bundle.cert_pem)
    (folder / "tls.key").write_bytes(bundle.key_pem)


@asynccontextmanager
async def serving(folder: Path, **settings: Any) -> AsyncIterator[tuple[Server, Session]]:
    """A running server and a client that trusts it."""
    settings = {"answer_s": PATIENCE_S, **settings}
    server = Server(
        Settings(folder / "s", folder, port=0, host="127.0.0.1", **settings),
    )
    ready = asyncio.Event()
    task = asyncio.create_task(server.run(ready))
    started = asyncio.create_task(ready.wait())
    await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
    try:
        async with session_for(server, BUNDLE) as session:
            yield server, session
    finally:
        server.stop()
        await task


def session_for(
    server: Server, trusted: CertificateBundle, client: CertificateBundle | None = None
) -> Session:
    """A client's session with the server, perhaps with a certificate of its own."""
    context = ssl.create_default_context(cadata=trusted.ca_pem.decode())
    if client is not None:
        with TemporaryDirectory() as name:
            write(Path(name), client)
            context.load_cert_chain(f"{name}/tls.crt", f"{name}/tls.key")
    return aiohttp.ClientSession(
        f"https://127.0.0.1:{server.port}",
        connector=aiohttp.TCPConnector(ssl=context),
        timeout=aiohttp.ClientTimeout(total=PATIENCE_S),
    )


async def post(session: Session, content: bytes, path: str = "/mutate") -> dict[str, Any]:
    """The response of one review."""
    async with session.post(path, data=io.BytesIO(content), headers=JSON) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        response: dict[str, Any] = (await answer.json())["response"]
        return response


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations in a response."""
    operations: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return operations


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Ask until the answer is yes."""
    while True:
        if await check():
            return
        await asyncio.sleep(0.02)
