"""The client presents the kubeconfig's credentials to a real server, plugins included."""

from __future__ import annotations

import base64
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from scheduler.watch.client import Client
from tools.controlplane.pki import Authority

LOOPBACK = "127.0.0.1"
PLUGIN = """#!{python}
import json
status = {{"token": "of-a-plugin"}}
version = "client.authentication.k8s.io/v1"
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": status}}))
"""


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
async def url(authority: Authority) -> AsyncIterator[str]:
    """A server that asks for a certificate, and answers with the credentials that it got."""
    pair = authority.server("api", (LOOPBACK,))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.files.certificate)
    tls.load_cert_chain(pair.certificate, pair.key)
    tls.verify_mode = ssl.CERT_OPTIONAL

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        subject = certificate["subject"] if certificate else ()
        [name] = [part[0][1] for part in subject if part[0][0] == "commonName"] or [""]
        return web.json_response([name, request.headers.get("Authorization", "")])

    app = web.Application()
    app.router.add_get("/whoami", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls).start()
    yield f"https://{LOOPBACK}:{runner.addresses[0][1]}"
    await runner.cleanup()


def kubeconfig(folder: Path, url: str, authority: Authority, user: dict[str, Any]) -> str:
    cluster = {"server": url, "certificate-authority-data": encoded(authority.files.certificate)}
    content = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return str(file)


async def presented(file: str) -> bytes:
    client = await Client.connect(file, "test")
    try:
        return await client.request("GET", "/whoami")
    finally:
        await client.close()


@pytest.mark.parametrize("form", ["files", "data"])
async def test_certificate_of_the_user_reaches_the_server(
    tmp_path: Path, url: str, authority: Authority, form: str
) -> None:
    pair = authority.client("jane")
    user = {
        "files": {"client-certificate": str(pair.certificate), "client-key": str(pair.key)},
        "data": {
            "client-certificate-data": encoded(pair.certificate),
            "client-key-data": encoded(pair.key),
        },
    }[form]

    assert await presented(kubeconfig(tmp_path, url, authority, user)) == b'["jane", ""]'


async def test_token_of_the_user_reaches_the_server(
    tmp_path: Path, url: str, authority: Authority
) -> None:
    file = kubeconfig(tmp_path, url, authority, {"token": "t"})

    assert await presented(file) == b'["", "Bearer t"]'


async def test_token_of_a_plugin_reaches_the_server(
    tmp_path: Path, url: str, authority: Authority
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(python=sys.executable))
    plugin.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}}

    file = kubeconfig(tmp_path, url, authority, user)

    assert await presented(file) == b'["", "Bearer of-a-plugin"]'
