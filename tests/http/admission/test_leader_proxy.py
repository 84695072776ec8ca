"""A standby queries the leader over real TLS: answers, rejections and timeouts."""

from __future__ import annotations

import asyncio
import datetime
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler import config
from scheduler.admission import leader_proxy
from scheduler.admission.leader_proxy import BUDGET_S, LeaderProxy, LeaderProxySettings
from scheduler.controllers.certificates.issuer import CertificateBundle, make_certificates
from scheduler.httpserver.connection_metrics import uncounted
from scheduler.httpserver.messages import Reply
from scheduler.httpserver.post_request import ANSWER_MAX
from scheduler.model.admission import PATH
from tests.patience import PATIENCE_S
from tools.controlplane.ports import free_ports

SERVICE = "gpu-scheduler.gpu-scheduler-system.svc"
NOW = datetime.datetime.now(datetime.UTC)
OURS = make_certificates([SERVICE], [], 1, now=NOW)
RENEWED = make_certificates([SERVICE], [], 1, now=NOW)
OTHER_NAME = make_certificates(["other.svc"], [], 1, now=NOW)
QUESTION = b'{"uid": "u"}'

Answer = Callable[[bytes], Awaitable[Reply]]


def write(folder: Path, bundle: CertificateBundle, word: str = "secret") -> LeaderProxySettings:
    """The files of one replica, and the settings that name them."""
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_bytes(bundle.cert_pem)
    (folder / "tls.key").write_bytes(bundle.key_pem)
    (folder / "ca.crt").write_bytes(bundle.ca_pem)
    (folder / "token").write_text(word + "\n")
    return LeaderProxySettings(
        host="127.0.0.1",
        port=free_ports(1)[0],
        certificate=folder / "tls.crt",
        key=folder / "tls.key",
        authority=folder / "ca.crt",
        server_name=SERVICE,
        token=folder / "token",
    )


async def says_yes(body: bytes) -> Reply:
    return Reply(200, b"yes to " + body)


class Standby:
    """Queries the leader at an address that the test may change."""

    def __init__(
        self, settings: LeaderProxySettings, address: str, budget_s: float = PATIENCE_S
    ) -> None:
        self.address = address
        self.now = 0.0
        self.forwarder = LeaderProxy(settings, lambda: self.address, lambda: self.now, budget_s)

    async def ask(self) -> Reply:
        return await self.forwarder.ask(QUESTION)


async def listening(settings: LeaderProxySettings) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection(settings.host, settings.port)
            except OSError:
                await asyncio.sleep(0.005)
            else:
                writer.close()
                return


@asynccontextmanager
async def leading(settings: LeaderProxySettings, answer: Answer = says_yes) -> AsyncIterator[None]:
    task = asyncio.create_task(leader_proxy.serve(settings, {PATH: answer}, uncounted("replicas")))
    await listening(settings)
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def settings(tmp_path: Path) -> LeaderProxySettings:
    return write(tmp_path / "leader", OURS)


@pytest.fixture
async def standby(settings: LeaderProxySettings) -> AsyncIterator[Standby]:
    made = Standby(settings, settings.address)
    yield made
    await made.forwarder.close()


@pytest.mark.contract("S0-B3")
async def test_leader_answer_is_returned_unchanged(
    settings: LeaderProxySettings, standby: Standby
) -> None:
    async with leading(settings):
        assert await standby.ask() == Reply(200, b'yes to {"uid": "u"}')


async def test_standby_answers_not_leading_without_asking_a_peer(
    settings: LeaderProxySettings, standby: Standby
) -> None:
    """One hop: two replicas that take each other for the leader would ask for ever."""

    async def no(_: bytes) -> Reply:
        return Reply(421, b"this scheduler does not lead")

    async with leading(settings, no):
        assert await standby.ask() == Reply(421, b"this scheduler does not lead")


async def test_without_a_leader_no_request_is_sent(standby: Standby) -> None:
    standby.address = ""

    assert (await standby.ask()).status == 421


async def test_dead_leader_fails_fast_and_logs_once(standby: Standby) -> None:
    """Or every pod of a minute would write one."""
    with capture_logs() as lines:
        for standby.now in (0.0, 59.0, 60.0):
            assert (await standby.ask()).status == 503

    assert [line["event"] for line in lines] == ["leader does not answer"] * 2


async def test_silent_leader_times_out_within_the_budget(settings: LeaderProxySettings) -> None:
    async def impossible(_: bytes) -> Reply:
        await asyncio.sleep(3600)
        return Reply(200, b"")

    standby = Standby(settings, settings.address, BUDGET_S)
    async with leading(settings, impossible):
        async with asyncio.timeout(PATIENCE_S):
            reply = await standby.ask()

        assert (reply.status, b"no answer within 0.3 s" in reply.content) == (503, True)
    await standby.forwarder.close()


async def test_endless_answer_is_not_read(settings: LeaderProxySettings, standby: Standby) -> None:
    async def endless(_: bytes) -> Reply:
        return Reply(200, b"x" * (ANSWER_MAX + 1))

    async with leading(settings, endless):
        assert (await standby.ask()).status == 503


async def test_a_long_answer_is_read_to_its_end(
    settings: LeaderProxySettings, standby: Standby
) -> None:
    async def long(_: bytes) -> Reply:
        return Reply(200, b"x" * 300_000)

    async with leading(settings, long):
        assert len((await standby.ask()).content) == 300_000


async def test_another_token_is_refused(settings: LeaderProxySettings, standby: Standby) -> None:
    async with leading(settings):
        settings.token.write_text("secret2")
        other = write(settings.token.parent.parent / "other", OURS)
        stranger = Standby(other, settings.address)
        assert (await stranger.ask()).status == 401
        await stranger.forwarder.close()
        assert (await standby.ask()).status == 200, "a new token needs no restart"


@pytest.mark.parametrize("sent", [None, "", "Bearer ", "Bearer secre", "secret", "Bearer sécret"])
async def test_request_without_the_token_is_rejected(
    settings: LeaderProxySettings, sent: str | None
) -> None:
    context = ssl.create_default_context(cadata=OURS.ca_pem.decode())
    headers = {} if sent is None else {"Authorization": sent}
    async with leading(settings), aiohttp.ClientSession() as session:
        url = f"https://{settings.address}{PATH}"
        async with session.post(
            url, data=b"{}", headers=headers, ssl=context, server_hostname=SERVICE
        ) as response:
            assert response.status == 401


@pytest.mark.parametrize(
    ("path", "status"), [(PATH, b"401"), ("/other", b"404")], ids=["no-token", "no-such-path"]
)
async def test_unauthorized_request_body_is_not_read(
    settings: LeaderProxySettings, path: str, status: bytes
) -> None:
    """Otherwise each unknown client could occupy four megabytes."""
    context = ssl.create_default_context(cadata=OURS.ca_pem.decode())
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"
    async with leading(settings):
        reader, writer = await asyncio.open_connection(
            settings.host, settings.port, ssl=context, server_hostname=SERVICE
        )
        writer.write(head.encode() + b"x" * 100_000)
        answer = await reader.readuntil(b"\r\n")
        writer.transport.abort()

    assert answer.split()[1] == status


async def test_oversized_query_is_rejected(settings: LeaderProxySettings) -> None:
    context = ssl.create_default_context(cadata=OURS.ca_pem.decode())
    headers = {"Authorization": "Bearer secret"}
    async with leading(settings), aiohttp.ClientSession(headers=headers) as session:
        url = f"https://{settings.address}{PATH}"
        question = io.BytesIO(b"x" * (leader_proxy.BODY_MAX + 1))
        async with session.post(
            url, data=question, ssl=context, server_hostname=SERVICE
        ) as response:
            assert response.status == 413


@pytest.mark.parametrize(
    "impostor",
    [pytest.param(OTHER_NAME, id="another-name"), pytest.param(RENEWED, id="another-authority")],
)
async def test_impostor_at_the_leader_address_is_rejected(
    tmp_path: Path, settings: LeaderProxySettings, standby: Standby, impostor: CertificateBundle
) -> None:
    """It knows neither our question nor our token."""
    heard: list[bytes] = []

    async def listen(body: bytes) -> Reply:
        heard.append(body)
        return Reply(200, b"forged")

    theirs = write(tmp_path / "impostor", impostor)
    async with leading(theirs, listen):
        standby.address = theirs.address

        assert (await standby.ask()).status == 503
    assert heard == []


async def test_certificate_of_a_new_ca_is_trusted_without_a_restart(
    tmp_path: Path, settings: LeaderProxySettings, standby: Standby
) -> None:
    renewed = write(tmp_path / "renewed", RENEWED)
    async with leading(renewed):
        standby.address = renewed.address
        assert (await standby.ask()).status == 503
        settings.authority.write_bytes(RENEWED.ca_pem)

        assert (await standby.ask()).status == 200


async def test_stale_connection_to_a_restarted_leader_is_retried(
    settings: LeaderProxySettings, standby: Standby
) -> None:
    for _ in range(2):
        async with leading(settings):
            assert (await standby.ask()).status == 200


async def test_missing_file_means_no_leader(
    settings: LeaderProxySettings, standby: Standby
) -> None:
    async with leading(settings):
        settings.token.unlink()
        assert (await standby.ask()).status == 503
        settings.token.write_text("")
        assert (await standby.ask()).status == 503


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("tls.key", RENEWED.key_pem, id="key-of-another-certificate"),
        pytest.param("ca.crt", b"", id="no-authority"),
        pytest.param("token", b"\n", id="no-token"),
    ],
)
def test_files_that_do_not_fit_are_found_at_the_start(
    tmp_path: Path, name: str, content: bytes
) -> None:
    made = write(tmp_path, OURS)
    settings = leader_proxy.settings_from(section(tmp_path), "127.0.0.1")
    assert settings == msgspec.structs.replace(made, port=8444)
    leader_proxy.check_files(settings)
    (tmp_path / name).write_bytes(content)

    with pytest.raises(config.ConfigError, match=r"^\$\.forward: "):
        leader_proxy.check_files(settings)


def test_address_needs_no_files(tmp_path: Path) -> None:
    """The Lease has it before the certificate rotator has written the first certificate."""
    settings = leader_proxy.settings_from(section(tmp_path), "10.1.2.3")

    assert settings is not None
    assert settings.address == "10.1.2.3:8444"
    with pytest.raises(config.ConfigError, match=r"^\$\.forward: .*No such file"):
        leader_proxy.check_files(settings)


def section(folder: Path, address: str = ":8444") -> config.Forward:
    return config.Forward(
        address=address,
        cert_dir=str(folder),
        ca_file=str(folder / "ca.crt"),
        server_name=SERVICE,
        token_file=str(folder / "token"),
    )


def test_without_a_host_the_pods_own_address_is_used(tmp_path: Path) -> None:
    write(tmp_path, OURS)

    made = leader_proxy.settings_from(section(tmp_path), "10.1.2.3")
    named = leader_proxy.settings_from(section(tmp_path, "[fd00::1]:1"), "10.1.2.3")

    assert made is not None
    assert named is not None
    assert (made.address, named.address) == ("10.1.2.3:8444", "[fd00::1]:1")
    with pytest.raises(config.ConfigError, match="POD_IP is not set"):
        leader_proxy.settings_from(section(tmp_path), "")
    assert leader_proxy.settings_from(config.Forward(), "") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("forward: {address: here}", "expected host:port", id="no-port"),
        pytest.param(
            "forward: {address: ':1', tokenFile: t, certDir: c}", "caFile, serverName", id="half"
        ),
        pytest.param("watch: {silenceMaxS: 1}", "silenceMaxS", id="a-silence-too-short"),
    ],
)
def test_half_a_configuration_is_refused(text: str, problem: str) -> None:
    head = "apiVersion: gpu-scheduler.io/v1\nkind: GpuSchedulerConfiguration\n"

    with pytest.raises(config.ConfigError, match=problem):
        config.parse((head + text).encode())


@pytest.mark.parametrize(
    ("host", "address"), [("10.0.0.1", "10.0.0.1:8444"), ("fd00::1", "[fd00::1]:8444")]
)
def test_leader_address_fits_into_a_url(tmp_path: Path, host: str, address: str) -> None:
    path = tmp_path / "x"
    made = LeaderProxySettings(
        host=host, port=8444, certificate=path, key=path, authority=path, server_name="", token=path
    )

    assert made.address == address
