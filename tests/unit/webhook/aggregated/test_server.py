"""The port of the aggregated decisions API: who is served, and what."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.controllers.certificates.issuer import make_certificates
from scheduler.httpserver.messages import Head, Reply
from scheduler.model.decisions.messages import (
    FRONT_PROXY_PATH,
    PATH,
    FrontProxy,
    NamespaceAnswer,
    PodDecision,
)
from tests.patience import PATIENCE_S
from tests.unit.webhook.serving import BUNDLE, JSON, NOW, serving, until, write
from tools.controlplane.pki import Authority
from webhook.aggregated.server import AggregatedApi
from webhook.app import Server
from webhook.certs import LiveCertificate
from webhook.scheduler_client import SchedulerClient

API = "/apis/decisions.gpu-scheduler.io/v1alpha1"
BIG = PodDecision(pod="big", uid="u", state="Pending", reason="INSUFFICIENT")
Json = dict[str, Any]


class SchedulerSide:
    """The scheduler's end of the socket: one front proxy, and the same decisions for everyone."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.proxy: FrontProxy | None = None
        self.status = 200
        self.answer = NamespaceAnswer(decisions=(BIG,))
        self.queries: list[Json] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get(FRONT_PROXY_PATH, self._front_proxy)
        app.router.add_post(PATH, self._decisions)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.UnixSite(runner, str(self._socket)).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _front_proxy(self, _: web.Request) -> web.Response:
        if self.proxy is None:
            return web.Response(status=503)
        return web.Response(body=msgspec.json.encode(self.proxy))

    async def _decisions(self, request: web.Request) -> web.Response:
        self.queries.append(await request.json())
        return web.Response(status=self.status, body=msgspec.json.encode(self.answer))


class Proxies:
    """Authorities of front proxies, and clients with their certificates."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def authority(self, name: str) -> Authority:
        return Authority(self._directory / name)

    def pem(self, name: str) -> str:
        return self.authority(name).files.certificate.read_text()

    def context(self, authority: str | None, user: str = "front-proxy-client") -> ssl.SSLContext:
        """A client's context, which trusts the webhook."""
        context = ssl.create_default_context(cadata=BUNDLE.ca_pem.decode())
        if authority is not None:
            pair = self.authority(authority).client(user)
            context.load_cert_chain(pair.certificate, pair.key)
        return context


class Port:
    """A running webhook with the port, and a way to ask."""

    def __init__(self, server: Server, scheduler: SchedulerSide, proxies: Proxies) -> None:
        self.server, self.scheduler, self.proxies = server, scheduler, proxies

    async def get(
        self,
        path: str,
        authority: str | None = "proxy",
        user: str = "front-proxy-client",
        method: str = "GET",
        **headers: str,
    ) -> tuple[int, Json]:
        """Status and body."""
        status, body, _ = await self.ask(path, authority, user, method, **headers)
        return status, body

    async def ask(
        self,
        path: str,
        authority: str | None = "proxy",
        user: str = "front-proxy-client",
        method: str = "GET",
        **headers: str,
    ) -> tuple[int, Json, str | None]:
        """Status, body and Retry-After; a client of its own for each request."""
        connector = aiohttp.TCPConnector(ssl=self.proxies.context(authority, user))
        url = f"https://127.0.0.1:{self.server.decisions_port}{path}"
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, url, headers=names) as response,
        ):
            body = json.loads(await response.read())
            return response.status, body, response.headers.get("Retry-After")

    async def until_trusted(self, authority: str) -> None:
        """The webhook asks the scheduler for the authority again and again."""
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: self.serves(authority))

    async def serves(self, authority: str | None) -> bool:
        """Whether the handshake succeeds."""
        try:
            status, _ = await self.get("/apis", authority)
        except (aiohttp.ClientError, ConnectionError):
            return False
        return status == 200


@pytest.fixture
async def port(folder: Path, tmp_path: Path) -> AsyncIterator[Port]:
    proxies = Proxies(tmp_path)
    scheduler = SchedulerSide(folder / "s")
    scheduler.proxy = FrontProxy(authority=proxies.pem("proxy"), names=("front-proxy-client",))
    async with scheduler.listening(), serving(folder, decisions_port=0) as (server, _):
        made = Port(server, scheduler, proxies)
        await made.until_trusted("proxy")
        yield made


async def test_client_without_the_front_proxy_certificate_fails_in_tls(port: Port) -> None:
    port.proxies.authority("stranger")

    for authority in (None, "stranger"):
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await port.get(f"{API}/namespaces/team/decisions", authority)
    assert port.scheduler.queries == []


async def test_unknown_front_proxy_serves_no_client(folder: Path, tmp_path: Path) -> None:
    """The scheduler may start later, or lack the right to read the ConfigMap."""
    proxies = Proxies(tmp_path)
    scheduler = SchedulerSide(folder / "s")
    async with scheduler.listening(), serving(folder, decisions_port=0) as (server, session):
        made = Port(server, scheduler, proxies)
        served = [await made.serves(authority) for authority in (None, "proxy")]
        async with session.get("/readyz") as ready:
            pass

    assert served == [False, False]
    assert ready.status == 200


async def test_request_without_a_certificate_is_forbidden(tmp_path: Path) -> None:
    """The handshake refuses it before; the gate does not rely on that."""
    write(tmp_path, BUNDLE)
    link = SchedulerClient(tmp_path / "s")
    api = AggregatedApi(link, LiveCertificate(tmp_path), lambda: NOW)

    reply = api.gate(Head("GET", "/apis", {}))

    assert isinstance(reply, Reply)
    assert reply.status == 403


async def test_long_name_of_a_user_is_cut_in_the_log(port: Port) -> None:
    with capture_logs() as logs:
        await port.get(f"{API}/namespaces/team/decisions", X_Remote_User="u" * 999)

    [read] = [one for one in logs if one["event"] == "decisions read"]
    assert read["user"] == "u" * 253


async def test_other_name_of_the_authority_is_forbidden(port: Port) -> None:
    status, body = await port.get(f"{API}/namespaces/team/decisions", user="another-client")

    assert (status, body["kind"], body["reason"]) == (403, "Status", "Forbidden")
    assert port.scheduler.queries == []


async def test_authority_without_names_accepts_its_certificates(port: Port) -> None:
    """As the API server does with an empty --requestheader-allowed-names."""
    port.scheduler.proxy = FrontProxy(authority=port.proxies.pem("second"))
    await port.until_trusted("second")

    status, _ = await port.get("/apis", "second", user="any")

    assert status == 200


async def test_changed_authority_replaces_the_former_one(port: Port) -> None:
    port.scheduler.proxy = FrontProxy(authority=port.proxies.pem("next"))

    await port.until_trusted("next")

    assert not await port.serves("proxy")


async def test_invalid_authority_leaves_the_former_one(port: Port) -> None:
    port.scheduler.proxy = FrontProxy(authority="no certificate")
    with capture_logs() as logs:

        async def is_rejected() -> bool:
            return any("rejected" in line["event"] for line in logs)

        async with asyncio.timeout(PATIENCE_S):
            await until(is_rejected)

    assert await port.serves("proxy")


async def test_renewed_serving_certificate_is_used(port: Port, folder: Path) -> None:
    renewed = make_certificates(["localhost"], ["127.0.0.1"], 1, now=NOW)
    write(folder, renewed)
    trusting = ssl.create_default_context(cadata=renewed.ca_pem.decode())
    pair = port.proxies.authority("proxy").client("front-proxy-client")
    trusting.load_cert_chain(pair.certificate, pair.key)

    async def is_served() -> bool:
        where = ("127.0.0.1", port.server.decisions_port)
        try:
            _, writer = await asyncio.open_connection(*where, ssl=trusting)
        except ssl.SSLError:
            return False
        writer.transport.abort()
        return True

    async with asyncio.timeout(PATIENCE_S):
        await until(is_served)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param("/apis", "APIGroupList", id="groups"),
        pytest.param("/apis/decisions.gpu-scheduler.io", "APIGroup", id="group"),
        pytest.param(API, "APIResourceList", id="resources"),
    ],
)
async def test_discovery_needs_no_scheduler(port: Port, path: str, kind: str) -> None:
    """The API server's discovery must not fail while no scheduler leads."""
    port.scheduler.status = 503

    status, body = await port.get(path)

    assert (status, body["kind"]) == (200, kind)


async def test_aggregated_discovery_gets_406(port: Port) -> None:
    wanted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    status, body = await port.get("/apis", Accept=wanted)

    assert (status, body["reason"]) == (406, "NotAcceptable")


async def test_one_decision_is_asked_for_and_the_reader_logged(port: Port) -> None:
    with capture_logs() as logs:
        status, body = await port.get(
            f"{API}/namespaces/team/decisions/big", X_Remote_User="jane", X_Remote_Group="g"
        )

    assert (status, body["kind"], body["metadata"]["name"]) == (200, "Decision", "big")
    assert port.scheduler.queries[-1] == {"namespace": "team", "pod": "big"}
    [line] = [line for line in logs if line["event"] == "decisions read"]
    assert (line["user"], line["namespace"], line["pod"]) == ("jane", "team", "team/big")


async def test_namespace_is_a_list_or_a_table(port: Port) -> None:
    path = f"{API}/namespaces/team/decisions?limit=500"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

    listed = await port.get(path)
    shown = await port.get(path, Accept=table)

    assert (listed[1]["kind"], len(listed[1]["items"])) == ("DecisionList", 1)
    assert shown[1]["rows"][0]["cells"][:3] == ["big", "Pending", "INSUFFICIENT"]
    assert port.scheduler.queries[-1] == {"namespace": "team"}


@pytest.mark.parametrize(
    ("path", "method", "code"),
    [
        pytest.param("/namespaces/team/decisions?watch=true", "GET", 405, id="watch"),
        pytest.param("/namespaces/team/decisions", "POST", 405, id="create"),
        pytest.param("/namespaces/team/decisions/big", "DELETE", 405, id="delete"),
        pytest.param("/namespaces/team/decisions/big", "PATCH", 405, id="patch"),
        pytest.param("/decisions", "GET", 405, id="all-namespaces"),
        pytest.param("/namespaces/team/pods", "GET", 404, id="pods"),
    ],
)
async def test_refusal_is_a_status(port: Port, path: str, method: str, code: int) -> None:
    status, body = await port.get(API + path, method=method)

    assert (status, body["kind"], body["code"]) == (code, "Status", code)
    assert port.scheduler.queries == []


async def test_unknown_pod_is_not_found(port: Port) -> None:
    port.scheduler.answer = NamespaceAnswer()

    status, body = await port.get(f"{API}/namespaces/team/decisions/gone")

    assert (status, body["reason"]) == (404, "NotFound")
    assert '"gone" not found' in body["message"]


async def test_without_a_leader_the_service_is_unavailable(port: Port) -> None:
    port.scheduler.status = 421

    status, body = await port.get(f"{API}/namespaces/team/decisions")

    assert (status, body["reason"]) == (503, "ServiceUnavailable")
    assert "details" not in body


async def test_busy_leader_is_a_status_with_a_time(port: Port) -> None:
    port.scheduler.status = 503
    port.scheduler.answer = NamespaceAnswer(retry_after_s=2)

    status, body, after = await port.ask(f"{API}/namespaces/team/decisions/big")

    assert (status, body["kind"], body["reason"]) == (503, "Status", "ServiceUnavailable")
    assert (after, body["details"]) == ("2", {"retryAfterSeconds": 2})


async def test_reviews_are_not_served_here(port: Port) -> None:
    """Nor is this API served on the port of the reviews."""
    connector = aiohttp.TCPConnector(ssl=port.proxies.context("proxy"))
    url = f"https://127.0.0.1:{port.server.port}"
    async with (
        aiohttp.ClientSession(url, connector=connector) as session,
        session.get(f"{API}/namespaces/team/decisions") as answer,
    ):
        pass

    status, _ = await port.get("/mutate", method="POST", **{"Content_Type": JSON["Content-Type"]})

    assert (answer.status, status) == (404, 405)


async def test_second_port_is_off_by_default(folder: Path) -> None:
    async with serving(folder) as (server, _):
        assert server.decisions_port == 0
