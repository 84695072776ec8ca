"""The server over time: certificates, clients that are not wanted, and the end."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scheduler.controllers.certificates.issuer import CertificateBundle, make_certificates
from scheduler.model.admission import AdmissionDecision
from tests.patience import PATIENCE_S
from tests.unit.webhook.pods import rewrite
from tests.unit.webhook.reviews import body
from tests.unit.webhook.scheduler import SchedulerEnd, says
from tests.unit.webhook.serving import (
    BUNDLE,
    JSON,
    MAPPED,
    MIG_POD,
    NOW,
    post,
    serving,
    session_for,
    until,
    write,
)
from webhook.app import Server


async def test_an_expired_certificate_is_not_ready(folder: Path) -> None:
    """Alive, so that it is not restarted in vain; not ready, so that the problem is visible."""
    past = NOW - datetime.timedelta(days=3)
    expired = make_certificates(["localhost"], ["127.0.0.1"], 1, now=past)
    write(folder, expired)
    async with serving(folder) as (server, _):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        url = f"https://127.0.0.1:{server.port}"
        async with aiohttp.ClientSession(url) as session:
            async with session.get("/readyz", ssl=context) as ready:
                text = await ready.text()
            async with session.get("/healthz", ssl=context) as alive:
                pass

    assert (ready.status, text, alive.status) == (503, "the certificate has expired\n", 200)


async def test_a_renewed_certificate_is_served_on_the_open_port(folder: Path) -> None:
    """New connections see it; no restart, no gap."""
    renewed = make_certificates(["localhost"], ["127.0.0.1"], 1, now=NOW)
    async with serving(folder) as (server, session):
        await post(session, body(object=MAPPED))
        write(folder, renewed)
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: answers(server, renewed))
        old = await answers(server, BUNDLE)

    assert not old


async def answers(server: Server, trusted: CertificateBundle) -> bool:
    """Whether a fresh client that trusts this authority gets an answer."""
    async with session_for(server, trusted) as session:
        try:
            async with session.get("/healthz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectorCertificateError:
            return False


async def test_client_certificate_is_required_where_configured(
    folder: Path,
) -> None:
    """Probes need none; a certificate of another authority does not even connect."""
    (folder / "clients.crt").write_bytes(BUNDLE.cert_pem)
    async with serving(folder, client_ca=folder / "clients.crt") as (server, session):
        async with session.post("/mutate", data=body(), headers=JSON) as refused:
            text = await refused.text()
        async with session.get("/healthz") as health:
            pass
        async with session_for(server, BUNDLE, client=other_client()) as stranger:
            with pytest.raises(aiohttp.ClientError):
                await post(stranger, body(object=MAPPED))

    assert (refused.status, text) == (403, "a client certificate is required\n")
    assert health.status == 200


async def test_without_the_certificate_not_even_a_body_is_read(folder: Path) -> None:
    """Otherwise each unknown client could occupy three megabytes."""
    (folder / "clients.crt").write_bytes(BUNDLE.cert_pem)
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"
    async with serving(folder, client_ca=folder / "clients.crt") as (server, _):
        trusted = ssl.create_default_context(cadata=BUNDLE.ca_pem.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusted)
        writer.write(head + b"x" * 100_000)
        answer = await reader.readuntil(b"required\n")
        writer.transport.abort()

    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")


def other_client() -> CertificateBundle:
    """A certificate of an unknown CA."""
    return make_certificates(["stranger"], [], 1, now=NOW)


@pytest.mark.contract("S2-B12")
async def test_shutdown_finishes_open_reviews(folder: Path) -> None:
    """Not ready from the first moment, still answering until the last."""
    asked, may_answer = asyncio.Event(), asyncio.Event()
    reply = says(AdmissionDecision(rewrites=(rewrite(),)))

    async def slow(question: dict[str, Any]) -> Any:
        asked.set()
        await may_answer.wait()
        return await reply(question)

    async with (
        SchedulerEnd(folder / "s", slow),
        serving(folder, drain_s=0.2) as (server, session),
    ):
        review = asyncio.create_task(post(session, body(object=MIG_POD)))
        await asked.wait()
        server.stop()
        async with session.get("/readyz") as ready:
            pass
        may_answer.set()
        response = await review

    assert ready.status == 503
    assert "patch" in response
